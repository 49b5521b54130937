"""Tables and groups: a table has the number of its request, or of its request and its group."""

import ast

from nullblock.spec.compiled.context import Context
from nullblock.spec.compiled.values import Const, Items, Num, Scope, Value


class Groups(Context):
    """What the environment says of tables."""

    def _e_tables(self, node: ast.Call, scope: Scope) -> Value:
        r = self.expr(node.args[0], scope)
        return Items(tuple(self._table(r, Const(g), node, scope) for g in self._groups()))

    def _e_tables_from_behind(self, node: ast.Call, scope: Scope) -> Value:
        tables = self._e_tables(node, scope)
        assert isinstance(tables, Items)
        return Items(tables.values[::-1])

    def _e_table(self, node: ast.Call, scope: Scope) -> Value:
        r, g = (self.expr(a, scope) for a in node.args)
        return self._table(r, g, node, scope)

    def _e_owner(self, node: ast.Call, scope: Scope) -> Value:
        t = self.expr(node.args[0], scope)
        if not self.env.several:
            return t
        n = self.num(t, node, scope)
        return Num(f"owner_of({n.c})", n.opt, n.fails)

    def _e_group(self, node: ast.Call, scope: Scope) -> Value:
        if not self.env.several:
            return Const(0)
        n = self.num(self.expr(node.args[0], scope), node, scope)
        return Num(f"group_of({n.c})", fails=n.fails)

    def _e_window_of(self, node: ast.Call, scope: Scope) -> Value:
        return self._by_group(self.env.window_sizes, node, scope)

    def _e_chunk_of(self, node: ast.Call, scope: Scope) -> Value:
        return self._by_group([g.attention_chunk_size for g in self.env.groups], node, scope)

    def _e_mamba_of(self, node: ast.Call, scope: Scope) -> Value:
        return self._by_group([int(g.mamba) for g in self.env.groups], node, scope)

    def _e_zeroed_of(self, node: ast.Call, scope: Scope) -> Value:
        plain = [int(not (g.is_windowed or g.sink_len or g.cross)) for g in self.env.groups]
        return self._by_group(plain, node, scope)

    def _e_cross_of(self, node: ast.Call, scope: Scope) -> Value:
        return self._by_group([int(g.cross) for g in self.env.groups], node, scope)

    def _e_aligned_of(self, node: ast.Call, scope: Scope) -> Value:
        return self._by_group([int(g.aligned) for g in self.env.groups], node, scope)

    def _e_inner_of(self, node: ast.Call, scope: Scope) -> Value:
        keeps = self.env.keeps_inner
        aligned = [g.prefill_checkpoint_alignment if keeps else 0 for g in self.env.groups]
        return self._by_group(aligned, node, scope)

    def _e_beside_of(self, node: ast.Call, scope: Scope) -> Value:
        return self._by_group(self.env.kept_beside, node, scope)

    def _e_size_of(self, node: ast.Call, scope: Scope) -> Value:
        return self._by_group(list(self.env.sizes), node, scope)

    def _e_cap_of(self, node: ast.Call, scope: Scope) -> Value:
        return self._by_group(self.env.caps, node, scope)

    def _e_held_of(self, node: ast.Call, scope: Scope) -> Value:
        return self._by_group(self.env.holds, node, scope)

    def _e_drops_of(self, node: ast.Call, scope: Scope) -> Value:
        return self._by_group(self.env.dropped, node, scope)

    def _e_marked_of(self, node: ast.Call, scope: Scope) -> Value:
        return self._by_group(self.env.marked, node, scope)

    def _e_kind_of(self, node: ast.Call, scope: Scope) -> Value:
        return self._by_group(self.env.of_kind, node, scope)

    def _e_lead(self, node: ast.Call, scope: Scope) -> Value:
        n = self.num(self.expr(node.args[0], scope), node, scope)
        return Num(f"{self.table(self.env.leads)}[{n.c}]", fails=n.fails)

    def _groups(self) -> range:
        return range(len(self.env.groups))

    def _table(self, r: Value, g: Value, node: ast.Call, scope: Scope) -> Value:
        if not self.env.several:
            return r
        n, group = self.num(r, node, scope), self.num(g, node, scope)
        return Num(f"table_of({n.c}, {group.c})", n.opt, n.fails or group.fails)

    def _by_group(self, values: list[int], node: ast.Call, scope: Scope) -> Value:
        """A number that is known of each group."""
        if len(set(values)) == 1:
            return Const(values[0])
        n = self.num(self.expr(node.args[0], scope), node, scope)
        return Num(f"{self.table(values)}[group_of({n.c})]", fails=n.fails)
