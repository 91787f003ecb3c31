// Selecting dead letters: all of this page, and how many.
const form = document.getElementById("dead");
const all = document.getElementById("pick-all");
const boxes = () => [...form.querySelectorAll('input[name="id"]')];

function show() {
  const n = boxes().filter((b) => b.checked).length;
  document.getElementById("picked").textContent = n ? `${n} selected` : "";
  const button = document.getElementById("requeue-selected");
  if (button) { button.disabled = !n; button.textContent = n ? `Requeue ${n} selected` : "Requeue selected"; }
  if (all) { all.checked = n > 0 && n === boxes().length; all.indeterminate = n > 0 && n < boxes().length; }
}
if (all) {
  all.hidden = false;
  all.addEventListener("change", () => { for (const b of boxes()) b.checked = all.checked; show(); });
}
form.addEventListener("change", show);
show();
