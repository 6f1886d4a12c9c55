// Asks the worker for the page of this address, and shows it. All figures come from Python; nothing is computed here.
const main = document.getElementById("main");
const state = document.getElementById("state");
const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
let asked = 0;

function ask(text) {
  asked += 1;
  main.setAttribute("aria-busy", "true");
  state.textContent = text;
  worker.postMessage({ id: asked, kind: "page", query: location.search });
}

worker.addEventListener("message", ({ data }) => {
  if (data.id !== asked) return; // an answer to an older question
  main.removeAttribute("aria-busy");
  if (data.fault) {
    state.textContent = `No answer: ${data.fault}`;
    return;
  }
  main.innerHTML = data.text; // Python's template has escaped every value
  state.textContent = location.search ? `Answered in ${(data.milliseconds / 1000).toFixed(1)} s.` : "Ready.";
});

worker.addEventListener("error", (event) => {
  main.removeAttribute("aria-busy");
  state.textContent = `Python cannot run here: ${event.message || "the worker does not start"}.`;
});

function open(query) {
  history.pushState(null, "", query);
  ask("Python computes.");
}

main.addEventListener("submit", (event) => {
  event.preventDefault();
  const filled = [...new FormData(event.target)].filter(([, value]) => value !== "");
  open(`?${new URLSearchParams(filled)}`);
});

main.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='?']");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  open(link.getAttribute("href"));
  main.focus();
});

main.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.textContent);
    state.textContent = "Copied.";
  } catch {
    getSelection().selectAllChildren(source);
    state.textContent = "Selected: press Ctrl+C.";
  }
});

addEventListener("popstate", () => ask("Python computes."));
ask("Python is being loaded.");
