/**
 * A DOUBLE, not an engine: a `llama-server` as a real one spoke on an H100. It prints a recorded log by the name of its
 * model (`part`, `whole`, `too-large`), then answers health and any request, or ends as the real one did. Its first line
 * tells what it was started with.
 */
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { parseArgs } from "node:util";

const [first] = process.argv.slice(2);
if (first === "--help") {
  console.log(
    "-c, --ctx-size N\n-fit, --fit [on|off]\n-cram, --cache-ram N\n  - 4: trace (more info)\n-lv, --log-verbosity N",
  );
  process.exit(0);
}
if (first === "--list-devices") {
  console.log("Available devices:\n  CUDA0: NVIDIA H100 80GB HBM3 (81079 MiB, 80552 MiB free)");
  process.exit(0);
}
const { values } = parseArgs({
  strict: false,
  options: { alias: { type: "string" }, port: { type: "string" }, host: { type: "string" } },
});
const recordings: Readonly<Record<string, string>> = {
  part: "load-l8-toobig-auto.log",
  whole: "load-l8-base.log",
  none: "load-h-no-device-env.log",
  "too-large": "context-too-large.log",
};
const model = String(values["alias"]);
const gpus = process.env["CUDA_VISIBLE_DEVICES"];
console.log(`started with ${JSON.stringify({ words: process.argv.slice(2), gpus: gpus ?? null })}`);
const recording = recordings[gpus === "" ? "none" : model] ?? "";
process.stdout.write(await readFile(join(import.meta.dirname, "../fixtures/h100", recording), "utf8"));
if (model === "too-large") process.exit(1);
createServer((request, response) => {
  request.resume();
  response.writeHead(200, { "content-type": "application/json" }).end('{"status":"ok"}');
}).listen(Number(values["port"]), String(values["host"]));
