/**
 * Lists the files of `src/` that execute for one warm chat request, by V8's coverage over that request alone:
 *
 *   node_modules/.bin/node test/bench/request-path.ts
 *
 * Each file has the number of its functions that ran. The engine is a double in this process; its files are not in `src/`.
 */
import { Session } from "node:inspector/promises";
import { fileURLToPath } from "node:url";
import { sayHello, scriptedEngine } from "../support/scripted-engine.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";

const source = fileURLToPath(new URL("../../src/", import.meta.url));
/** Work that every turn of a second does may run beside a request: what runs in all of these is the request's. */
const rounds = 5;
const warmRounds = 50;

const session = new Session();
session.connect();
await session.post("Profiler.enable");
await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });

await using engine = await scriptedEngine(sayHello);
await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
for (const isStream of [false, true]) {
  const files = await pathOf(gateway, isStream);
  console.log(`${isStream ? "a streamed" : "a"} chat: ${files.size} files`);
  for (const [file, functions] of files) console.log(`  ${String(functions).padStart(3)}  ${file}`);
}

/** The files that execute for a chat, and how many functions of each. */
async function pathOf(to: TestGateway, isStream: boolean): Promise<ReadonlyMap<string, number>> {
  for (let count = 0; count < warmRounds; count++) await chat(to, isStream);
  let common: ReadonlyMap<string, number> | undefined;
  for (let round = 0; round < rounds; round++) {
    await session.post("Profiler.takePreciseCoverage");
    await chat(to, isStream);
    const { result } = await session.post("Profiler.takePreciseCoverage");
    const ran = new Map<string, number>();
    for (const { url, functions } of result) {
      const path = url.startsWith("file:") ? fileURLToPath(url) : "";
      const count = functions.filter(({ ranges: [whole] }) => (whole?.count ?? 0) > 0).length;
      if (path.startsWith(source) && count > 0) ran.set(path.slice(source.length), count);
    }
    common = common === undefined ? ran : new Map([...common].filter(([file]) => ran.has(file)));
  }
  return new Map([...(common ?? [])].toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

async function chat(to: TestGateway, isStream: boolean): Promise<void> {
  const body = { model: "primary", messages: [{ role: "user", content: "hi" }], stream: isStream };
  const response = await to.post("/v1/chat/completions", body);
  if (response.status !== 200) throw new Error(`the gateway answers ${response.status}: ${await response.text()}`);
  await response.text();
}
