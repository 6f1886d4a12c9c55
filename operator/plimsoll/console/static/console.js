// Copies text, keeps live pages fresh where the stream is not to be had, and says when the console does not answer.
// There is no arithmetic here: every figure comes from the server.
"use strict";

const FRESHEN_MILLISECONDS = 15000;

function changed() {
  if (!document.hidden) htmx.trigger(document.body, "changed");
}

function cut(isCut) {
  document.body.classList.toggle("cut", isCut);
  const banner = document.getElementById("cut");
  if (banner) banner.hidden = !isCut;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  const said = button.textContent;
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(source);
    button.textContent = "Selected: press Ctrl+C";
  }
  setTimeout(() => { button.textContent = said; }, 2000);
});

document.addEventListener("htmx:error", () => cut(true));
document.addEventListener("htmx:sse:error", () => cut(true));
document.addEventListener("htmx:after:swap", () => cut(false));
document.addEventListener("htmx:sse:after:connection", () => cut(false));
document.addEventListener("visibilitychange", changed);
setInterval(changed, FRESHEN_MILLISECONDS);
