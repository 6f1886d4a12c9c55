// Runs the core in a thread of its own. A question is {id, kind, query}: kind names a function of plimsoll.console.alone.
import { loadPyodide } from "./pyodide.mjs";

const HERE = new URL("./", import.meta.url).href;
const FOLDER = "/lib/calculator";

async function bytes(name) {
  const answer = await fetch(new URL(name, HERE));
  if (!answer.ok) throw new Error(`${name} cannot be read (${answer.status})`);
  return answer.arrayBuffer();
}

async function start() {
  const [python, core] = await Promise.all([loadPyodide({ indexURL: HERE }), bytes("core.zip")]);
  python.unpackArchive(core, "zip", { extractDir: FOLDER });
  python.runPython(`import sys; sys.path.insert(0, "${FOLDER}")`);
  return { python, alone: python.pyimport("plimsoll.console.alone") };
}

let checks = null;

async function withChecks(python) {
  checks ??= bytes("checks.zip").then((archive) => {
    python.unpackArchive(archive, "zip", { extractDir: FOLDER });
    python.runPython("import importlib; importlib.invalidate_caches()");
  });
  await checks;
}

// Plain questions need no pydantic. Others import it: then it is fetched, and the question is asked again.
async function answer(kind, query) {
  const { python, alone } = await ready;
  try {
    return alone[kind](query);
  } catch (error) {
    if (error.type !== "ModuleNotFoundError" || checks) throw error;
    await withChecks(python);
    return alone[kind](query);
  }
}

const ready = start();

self.addEventListener("message", async ({ data: { id, kind, query } }) => {
  const begun = performance.now();
  try {
    const text = await answer(kind, query);
    self.postMessage({ id, text, milliseconds: performance.now() - begun });
  } catch (error) {
    const fault = String(error.message ?? error).trim().split("\n").pop();
    self.postMessage({ id, fault });
  }
});
