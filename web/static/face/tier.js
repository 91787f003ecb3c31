// What was typed and differs from what stood there, counted while typing.
const form = document.getElementById("plan");
form.addEventListener("input", () => {
  const changed = [...form.querySelectorAll(".field input, .field select")].filter((i) => i.value !== (i.defaultValue ?? i.querySelector("[selected]")?.value ?? "off"));
  document.getElementById("plan-changes").textContent = changed.length ? `${changed.length} changed: ${changed.map((i) => i.labels[0].textContent).join(", ")}` : "";
});
