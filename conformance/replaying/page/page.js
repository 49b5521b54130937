// Whoever points at a time sees the values there, in every plot of that run.
for (const run of document.querySelectorAll("[data-run]")) {
  const data = JSON.parse(run.dataset.run);
  const all = document.querySelectorAll(`[data-of="${data.number}"]`);
  const show = (at) => {
    for (const figure of all) {
      const values = JSON.parse(figure.dataset.values);
      const svg = figure.querySelector("svg");
      const pointer = svg.querySelector(".pointer");
      const width = svg.viewBox.baseVal.width;
      const place = at === null ? -1 : Math.min(data.bins - 1, Math.floor(at * data.clock / data.width));
      if (pointer) {
        pointer.toggleAttribute("hidden", at === null);
        const x = data.left + (at || 0) * (width - data.left - data.right);
        pointer.setAttribute("x1", x);
        pointer.setAttribute("x2", x);
      }
      for (const name in values) {
        const value = place < 0 ? null : values[name][place];
        figure.querySelector(`b[data-name="${name}"]`).textContent =
          value === null || value === undefined ? "" : value.toLocaleString("en");
      }
      const clock = figure.querySelector(".clock");
      if (clock) clock.textContent = at === null ? "" : `${(at * data.clock).toFixed(0)} s`;
    }
  };
  for (const figure of all) {
    const svg = figure.querySelector("svg");
    if (!svg.querySelector(".pointer")) continue;
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
      const at = (x - data.left) / (svg.viewBox.baseVal.width - data.left - data.right);
      show(at < 0 || at > 1 ? null : at);
    });
    svg.addEventListener("pointerleave", () => show(null));
  }
}
