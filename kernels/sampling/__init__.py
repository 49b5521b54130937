"""From logits to tokens, and to the requests that end with them."""
