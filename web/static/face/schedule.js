// The page asks for the next occurrences of the form's schedule while a user types. The button does the same without
// scripts.
const form = document.getElementById("schedule");
const preview = document.getElementById("preview");
let timer = 0, asked = 0;

form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(ask, 400); });

async function ask() {
  const mine = ++asked;
  const body = new URLSearchParams(new FormData(form));
  body.set("do", "preview");
  try {
    const res = await fetch(form.action, { method: "POST", body, headers: { Accept: "text/html" } });
    const fresh = new DOMParser().parseFromString(await res.text(), "text/html").getElementById("preview");
    if (res.ok && fresh && mine === asked) preview.replaceChildren(...fresh.childNodes);
  } catch { /* the server is away: the next input asks again */ }
}
