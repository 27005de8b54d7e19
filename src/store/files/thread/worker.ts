import { parentPort } from "node:worker_threads";
import { slotsInDirectory, slotsInTexts } from "../declared-slots.ts";
import { readManifests } from "../manifest.ts";
import { openManifestWriter } from "../manifest-writer.ts";
import { removalRecorder } from "../../state/removals.ts";
import { failureOf } from "../../thread-failure.ts";
import { validateDirectory } from "../validate.ts";
import type { ManifestWriter } from "../writer.ts";
import type { Answer, Given, Question, Taken, TaskName, Where } from "./task.ts";

type Tasks = { readonly [K in TaskName]: (input: Taken<K>) => Promise<Given<K>> };

/** A person reads no more of them, and passing them on blocks the receiving thread. */
const mostDiagnostics = 1000;

const tasks: Tasks = {
  validateFiles: async (files) =>
    Object.entries(files)
      .flatMap(([file, text]) => readManifests(file, text).flatMap(({ diagnostics }) => diagnostics))
      .slice(0, mostDiagnostics),
  validateDirectory: async (configDir) => (await validateDirectory(configDir)).slice(0, mostDiagnostics),
  slotsIn: async (from) => (typeof from === "string" ? await slotsInDirectory(from) : slotsInTexts(from)),
  readOnlyReason: async (where) => await writerOf(where).readOnlyReason(),
  create: async ({ kind, name, change, ...where }) => {
    const writer = writerOf(where);
    await writer.create(kind, name, change);
    return { outcome: "created", specHash: await writer.specHash(kind, name) };
  },
  replace: async ({ kind, name, change, ...where }) => {
    const writer = writerOf(where);
    const outcome = await writer.replace(kind, name, change);
    return { outcome, specHash: await writer.specHash(kind, name) };
  },
  set: async ({ kind, name, path, value, ...where }) => {
    await writerOf(where).set(kind, name, path, value);
    return undefined;
  },
  specHash: async ({ kind, name, ...where }) => await writerOf(where).specHash(kind, name),
  source: async ({ kind, name, ...where }) => await writerOf(where).source(kind, name),
  specOf: async ({ kind, name, text, ...where }) => await writerOf(where).specOf(kind, name, text),
  writeSource: async ({ kind, name, change, ...where }) => {
    await writerOf(where).writeSource(kind, name, change);
    return undefined;
  },
  remove: async ({ kind, name, isKnown, ...where }) => await writerOf(where).remove(kind, name, { isKnown }),
};

function writerOf({ configDir, stateDir, isReadOnly }: Where): ManifestWriter {
  return openManifestWriter({ configDir, isReadOnly, removals: removalRecorder(stateDir) });
}

async function run<K extends TaskName>(name: K, input: Taken<K>): Promise<Answer> {
  const task: Tasks[K] = tasks[name];
  return { value: await task(input) };
}

parentPort?.on("message", ({ name, input }: Question) => {
  void run(name, input)
    .catch((error: unknown): Answer => ({ failure: failureOf(error) }))
    .then((answer) => parentPort?.postMessage(answer, []));
});
// The first message says that this module is loaded.
parentPort?.postMessage("ready", []);
