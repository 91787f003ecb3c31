// What was typed and differs from what stood there, counted while typing.
const form = document.getElementById("plan");
const before = (i) => i.defaultValue ?? i.querySelector("[selected]")?.value ?? i.options[0].value;
form.addEventListener("input", () => {
  const changed = [...form.querySelectorAll(".field input, .field select")].filter((i) => i.value !== before(i));
  document.getElementById("plan-changes").textContent = changed.length ? `${changed.length} changed: ${changed.map((i) => i.labels[0].textContent).join(", ")}` : "";
});
