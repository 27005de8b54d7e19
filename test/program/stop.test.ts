import assert from "node:assert/strict";
import { connect, createServer, type Socket } from "node:net";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { startTimeOf } from "../../src/lib/process-identity.ts";
import { say, startDockerDaemon } from "../doubles/docker-daemon.ts";
import { startBerth } from "../support/berth.ts";
import { operatorPid } from "../support/published.ts";
import { berthProcess } from "../support/command.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";
import { coder, engineOf, save, startUp } from "./coder.ts";

it("a second Ctrl-C kills at once, an engine too that ignores TERM and has ten minutes", async () => {
  await using berth = await startUp({ manifest: coder("stop_seconds = 600\n", "--ignore-term") });
  const { pid } = await engineOf(berth);
  berth.child.kill("SIGTERM");
  await until("it stops its engine", () => /stopping every engine/.test(berth.log()));
  assert.notEqual(startTimeOf(pid), undefined, "the engine takes its time");
  await berth.stop("SIGINT");
  assert.equal(startTimeOf(pid), undefined);
});

it("the end of berth up ends the engines of an operator that hangs", async () => {
  await using berth = await startUp();
  const { pid } = await engineOf(berth);
  process.kill(operatorPid(berth), "SIGSTOP");
  assert.equal(await berth.stop("SIGINT"), 0);
  assert.match(berth.log(), /the operator left engines running; ended coder/);
  assert.equal(startTimeOf(pid), undefined);
});

it("berth up whose log is no longer read obeys edits, and ends its engines", async () => {
  await using berth = await startUp();
  berth.child.stdout?.destroy();
  berth.child.stderr?.destroy();
  const { pid } = await engineOf(berth);
  // Every one of these is a line that cannot be written.
  for (const seconds of [5, 6, 7]) {
    await save(berth, coder(`idle_seconds = ${seconds}\n`));
    await until("the edit counts", async () => Number((await berth.slot("coder"))["generation"]) === seconds - 3);
  }
  assert.equal((await engineOf(berth)).pid, pid);
  assert.equal(await berth.stop("SIGINT"), 0);
  assert.equal(startTimeOf(pid), undefined);
});

it("berth up whose clients are in the middle of a stream and of uploads ends by itself", async () => {
  // 15 MB, more than all sockets on the way hold: nobody reads the stream.
  await using berth = await startUp({ manifest: coder("", "--tokens", "100000") });
  const body = JSON.stringify({ model: "coder", stream: true, messages: [{ role: "user", content: "hi" }] });
  using stack = new DisposableStack();
  const send = (path: string, length: number): void => {
    const client = stack.adopt(connect(Number(new URL(berth.url).port), "127.0.0.1"), (socket) => socket.destroy());
    client.on("error", () => undefined);
    const head = `host: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: ${length}`;
    client.write(`POST ${path} HTTP/1.1\r\n${head}\r\n\r\n${body}`);
  };
  send("/v1/chat/completions", body.length);
  for (const path of ["/v1/chat/completions", "/api/slots"]) send(path, 1_000_000);
  const metrics = async (): Promise<string> => await (await fetch(`${berth.url}/metrics`)).text();
  await until("the stream is under way", async () =>
    /berth_requests_in_flight\{slot="coder"\} 1/.test(await metrics()),
  );
  assert.equal(await berth.stop("SIGINT"), 0);
  assert.match(berth.log(), /\d requests? did not end within the time to stop/);
  assert.doesNotMatch(berth.log(), /has not ended within|left engines/);
});

for (const [when, runtime] of [
  ["before its operator is ready", "docker"],
  ["while one of its slots has not been observed", "process"],
] as const)
  it(`berth up is stopped at once beside a Docker that does not answer, ${when}`, async () => {
    await using docker = await silentDocker();
    await using berth = await startBerth({
      env: { SVC_RUNTIME: runtime, SVC_DOCKER_HOST: docker.url },
      prepare: async (dirs) => {
        if (runtime === "docker") return;
        await save(dirs);
        await writeFile(join(dirs.configDir, "slots/hung.toml"), `runtime = "docker"\n${coder()}`);
      },
    });
    if (runtime === "process") await until("an engine runs", () => /coder: ready/.test(berth.log()));
    await until("Docker is asked", docker.isAsked);
    assert.equal(await berth.stop("SIGINT"), 0);
    // Nobody had to be killed.
    assert.doesNotMatch(berth.log(), /has not ended within|left engines/);
    const { code, stdout } = await berthProcess(["down"], { ...berth.env, SVC_URL: "", SVC_DOCKER_HOST: "" });
    assert.deepEqual([code, stdout], [0, `no engine runs by the state directory ${berth.stateDir}\n`]);
  });

it("berth up whose Docker hangs ends its processes in time", async () => {
  let isHung = false;
  await using docker = await startDockerDaemon((asked, response) => {
    if (isHung || asked.includes("/images/")) return;
    if (asked === "GET /events") response.writeHead(200).flushHeaders();
    else if (asked === "GET /containers/json") say(response, 200, []);
    else if (asked === "GET /version") say(response, 200, { Components: [] });
    else say(response, 404, { message: "no such thing" });
  });
  const hung = 'runtime = "docker"\nengine = "custom"\nimage = "x:1"\n';
  await using berth = await startBerth({
    env: { SVC_DOCKER_HOST: `unix://${docker.path}` },
    prepare: async (dirs) => {
      await save(dirs);
      await writeFile(join(dirs.configDir, "slots/hung.toml"), hung);
    },
  });
  const { pid } = await engineOf(berth);
  await until("a slot waits for Docker", () => docker.asked.some((what) => what.includes("/images/")));
  isHung = true;
  assert.equal(await berth.stop("SIGINT"), 0);
  assert.doesNotMatch(berth.log(), /has not ended within|left engines/);
  assert.equal(startTimeOf(pid), undefined);
});

/** A socket that takes every call and answers none. */
async function silentDocker(): Promise<AsyncDisposable & { url: string; isAsked: () => boolean }> {
  const directory = await tempDir();
  const socket = join(directory.path, "docker.sock");
  const connections = new Set<Socket>();
  const server = createServer((connection) => {
    connections.add(connection);
    connection.on("error", () => undefined);
  });
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  return {
    url: `unix://${socket}`,
    isAsked: () => connections.size > 0,
    async [Symbol.asyncDispose]() {
      server.close();
      for (const connection of connections) connection.destroy();
      await directory[Symbol.asyncDispose]();
    },
  };
}
