/** A command as a process: its modules, signals, output, input, user. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdir, readdir, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { apiDouble, stream } from "../support/api-double.ts";
import { command } from "../support/berth.ts";
import { berthProcess, endOf } from "../support/command.ts";
import { noOtherUser, otherUser } from "../support/other-user.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";
import { failed, listOf, primary, slots } from "./fixture.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const coverage = z.object({ result: z.array(z.object({ url: z.string() })) });

it("a command loads little, so that it starts in a quarter of a second: no schema library, no server, no log", async () => {
  await using directory = await tempDir();
  await using api = await apiDouble({
    "/api/slots": slots,
    "/api/status": { version: "1", uptime_seconds: 1 },
    "/api/health/system": { status: "ok" },
  });
  const { code } = await berthProcess(["status"], { SVC_URL: api.url, NODE_V8_COVERAGE: directory.path });
  assert.equal(code, 0);
  const urls = new Set<string>();
  for (const name of await readdir(directory.path)) {
    const text: unknown = JSON.parse(await readFile(join(directory.path, name), "utf8"));
    for (const { url } of coverage.parse(text).result) if (url.startsWith("file:")) urls.add(url);
  }
  const packages = [...urls].flatMap((url) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1] ?? []);
  assert.deepEqual(new Set(packages), new Set(["commander"]));
  const isOwn = /\/src\/(?!cli|main|api).*(?<!-commands)\.ts$/;
  const own = [...urls].filter((url) => isOwn.test(url)).map((url) => basename(url));
  assert.deepEqual(own.toSorted(), ["entry.ts", "lost-output.ts", "release.ts", "version.ts"]);
});

it("a process ends with the code of its command: done, failed, usage; whatever CDPATH a shell has exported", async () => {
  await using directory = await tempDir();
  await mkdir(join(directory.path, "bin"));
  const shell = (line: string) => endOf("sh", ["-c", `cd '${root}' && ${line}`], { CDPATH: directory.path });
  const shown = await shell("bin/berth --version");
  assert.match(shown.stdout, /^\d+\.\d+\.\d+/);
  assert.deepEqual([shown.code, shown.stderr], [0, ""]);
  assert.equal((await shell("bin/berth --server localhost status")).code, 1);
  assert.equal((await shell("bin/berth slot nope")).code, 2);
});

it("fails in two lines where its output is lost, and ends quietly where nobody reads on", async () => {
  const shell = (line: string) => endOf("bash", ["--norc", "-c", line]);
  assert.deepEqual(
    await shell(`'${command}' completion bash >/dev/full`),
    failed("output.failed: ENOSPC: no space left on device, write\nmake room where the output goes\n"),
  );
  const unread = await shell(`'${command}' completion bash | true; echo "\${PIPESTATUS[0]}"`);
  assert.deepEqual(unread, { code: 0, stdout: "0\n", stderr: "" });
});

it("reads what is piped in", async () => {
  const delta = JSON.stringify({ choices: [{ delta: { content: "Hey" } }] });
  await using api = await apiDouble({ "/v1/chat/completions": stream(delta, "[DONE]") });
  const ended = await berthProcess(["chat", "primary"], { SVC_URL: api.url }, { typed: "a\nb\n" });
  assert.deepEqual(ended, { code: 0, stdout: "Hey\n", stderr: "" });
  assert.match(api.bodies[0] ?? "", /"content":"a\\nb\\n"/);
});

it("colours states where colours are wanted, and never where NO_COLOR is set", async () => {
  await using api = await apiDouble({ "/api/slots": slots });
  const shown = async (env: NodeJS.ProcessEnv): Promise<string> =>
    (await berthProcess(["slot", "list"], { SVC_URL: api.url, ...env })).stdout;
  const coloured = await shown({ FORCE_COLOR: "1" });
  assert.ok(coloured.includes("primary  \u001B[32mready\u001B[39m  Ready "), coloured);
  assert.ok(coloured.includes("coder    \u001B[31merror\u001B[39m  Failed (CrashLoop) "), coloured);
  assert.ok(!(await shown({ NO_COLOR: "1" })).includes("\u001B"));
});

it(
  "needs no home directory that it may read, as for a service that root has started",
  { skip: noOtherUser() ?? false },
  async () => {
    await using home = await tempDir();
    await using api = await apiDouble({ "/api/slots": listOf() });
    const as = { uid: otherUser, gid: otherUser };
    const ended = await berthProcess(["--server", api.url, "slot", "list"], { HOME: home.path }, as);
    assert.deepEqual([ended.code, ended.stderr], [0, ""]);
  },
);

it("berth slot list --watch prints again when something changed, until it is interrupted", async () => {
  const list = (state: string, uptime = 1): object => listOf({ ...primary, state, uptime_seconds: uptime });
  await using api = await apiDouble({ "/api/slots": list("starting") });
  const child = spawn(command, ["slot", "list", "--watch"], {
    env: { PATH: process.env["PATH"], SVC_URL: api.url },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve) => child.once("exit", (_, signal) => resolve(signal)));
  try {
    let shown = "";
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => (shown += chunk));
    await until("the first table", () => shown.includes("starting"));
    api.answer("/api/slots", list("starting", 2));
    const asked = api.asked.length;
    await until("two more looks", () => api.asked.length > asked + 1);
    assert.equal(shown.split("NAME").length, 2, "nothing changed but the time: nothing is printed");
    api.answer("/api/slots", list("ready", 3));
    await until("the next table", () => shown.includes("ready"));
    assert.match(shown, /starting[^]* 1s\n\nNAME[^]*ready[^]* 3s\n/);
  } finally {
    child.kill("SIGINT");
  }
  assert.equal(await ended, "SIGINT");
});
