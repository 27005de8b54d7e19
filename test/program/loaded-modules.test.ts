import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { packagesOf } from "../support/packages.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";
import { startUp } from "./coder.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** They choose by settings and hold constants: no client, no list-watch, no library. */
const light = [
  "src/runtimes/kubernetes/in-cluster.ts",
  "src/runtimes/kubernetes/traits.ts",
  "src/store/kubernetes/cluster-store.ts",
];

/** Writes the address of every module that a process loads into a file, and at its end whether it has loaded Node's undici. */
const recorder = `
import { appendFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { isMainThread } from "node:worker_threads";
if (isMainThread)
  process.on("exit", () => {
    const has = process.moduleLoadList.includes("NativeModule internal/deps/undici/undici");
    appendFileSync(process.env.LOADED_MODULES, process.argv[2] + " undici:" + has + "\\n");
  });
registerHooks({
  load(url, context, next) {
    appendFileSync(process.env.LOADED_MODULES, process.argv[2] + " " + url + "\\n");
    return next(url, context);
  },
});
`;

it("berth up on files loads no code for Kubernetes, with a cluster's kubeconfig at hand, no undici and no command line", async () => {
  await using directory = await tempDir();
  const hook = join(directory.path, "recorder.mjs");
  const loaded = join(directory.path, "loaded");
  await writeFile(hook, recorder);
  await writeFile(loaded, "");
  const env = {
    NODE_OPTIONS: `--import=${pathToFileURL(hook).href}`,
    LOADED_MODULES: loaded,
    KUBECONFIG: join(directory.path, "kubeconfig"),
  };
  await using berth = await startUp({ env });
  const lines = await until("operator and gateway have loaded theirs", async () => {
    const text = await readFile(loaded, "utf8");
    return text.includes("/src/operator/") && text.includes("/src/gateway/") ? text.split("\n") : undefined;
  });
  const modules = lines.map((line) => line.slice(line.indexOf(" ") + 1).replace(pathToFileURL(root).href, ""));
  const found = new Set(modules.filter((url) => /kubernetes|client-node/.test(url)));
  assert.deepEqual([...found].toSorted(), light);
  const commandLine = lines.filter((line) => /^(operator|serve) .*(\/commander\/|\/src\/cli\/)/.test(line));
  assert.deepEqual(commandLine, [], "the command line belongs to commands");
  const parsers = lines.filter((line) => /^(up|info) .*\/(yaml|toml-eslint-parser)\//.test(line));
  assert.deepEqual(parsers, [], "manifests are read by the parts");
  const catalogue = lines.filter((line) => /^(operator|serve) .*\/src\/store\/files\/catalog\.ts$/.test(line));
  assert.deepEqual(catalogue, [], "no model is to be fetched, and nobody has asked for the catalogue");
  await berth.stop("SIGINT");
  const ends = (await readFile(loaded, "utf8")).split("\n").filter((line) => line.includes(" undici:"));
  assert.deepEqual(ends.toSorted(), ["info undici:false", "operator undici:false", "serve undici:false"]);
});

// Memory at rest: commands, settings and their schemas took three quarters of the parent's.
it("the parent of operator and gateway loads its log, and no other package", async () => {
  const packages = await packagesOf("src/program/supervise.ts");
  assert.deepEqual([...packages.keys()].toSorted(), ["pino"], JSON.stringify([...packages]));
});
