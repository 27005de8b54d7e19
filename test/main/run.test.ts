import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { publishedOperatorSchema } from "../../src/api/status.ts";
import { startTimeOf } from "../../src/lib/process-identity.ts";
import { say, startDockerDaemon } from "../doubles/docker-daemon.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { runBerth, type Ended } from "../support/command.ts";
import { readPublished } from "../support/published.ts";
import { freePort } from "../support/free-port.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";
import { listen } from "../support/listen.ts";

const engine = fileURLToPath(new URL("../doubles/engine.ts", import.meta.url));
const customSlot = `engine = "custom"
command = [${JSON.stringify(process.execPath)}, "--disable-warning=ExperimentalWarning", ${JSON.stringify(engine)}]
`;

async function withSlot({ configDir }: { configDir: string }): Promise<void> {
  await writeFile(join(configDir, "slots/coder.toml"), customSlot);
}

/** A command's end in the surroundings of a running Berth; its directory is called DIR. */
async function beside({ env, configDir }: RunningBerth, ...args: readonly string[]): Promise<Ended> {
  const ended = await runBerth(args, { ...env, SVC_URL: "" });
  const anonymous = (text: string): string =>
    text.replaceAll(join(configDir, ".."), "DIR").replaceAll(/^\d\d:\d\d:\d\d/gm, "TIME");
  return { ...ended, stdout: anonymous(ended.stdout), stderr: anonymous(ended.stderr) };
}

const noEngine = "no engine runs by the state directory DIR/state\n";

describe("berth operator", () => {
  it("--paused prints its plan, and does nothing", async () => {
    await using berth = await startBerth({ args: ["operator", "--paused"], prepare: withSlot });
    await until("the operator runs", () => berth.log().includes("operator watches"));
    await using gateway = await gatewayOf(berth);
    const { stdout } = await beside(berth, "slot", "plan", "coder");
    const steps = / {2}1\. lease: \d+ is free\n {2}2\. start main: [^\n]+\n {5}"?\/.+\/node"? /;
    assert.match(stdout, new RegExp(`^coder: \\w+: [^\\n]+\\n${steps.source}`));
    assert.match((await beside(berth, "slot", "list", "-o", "json")).stdout, /"state": "offline"/);
    assert.equal(gateway.child.exitCode, null);
  });

  it("leaves engines to `berth down`, which is refused while it runs", async () => {
    await using berth = await startBerth({ args: ["operator"], prepare: withSlot });
    await until("the engine is ready", () => /coder: ready/.test(berth.log()));
    const { pid = 0 } = berth.child;
    assert.deepEqual(await beside(berth, "down"), {
      code: 1,
      stdout: "",
      stderr:
        `operator.running: another operator (process ${pid}) runs with the state directory DIR/state; stop it, or set SVC_STATE_DIR to another directory\n` +
        "stop the operator or `berth up` first: it would start them again\n",
    });
    assert.deepEqual(await beside(berth, "operator"), {
      code: 1,
      stdout: `TIME fatal operator another operator (process ${pid}) runs with the state directory DIR/state; stop it, or set SVC_STATE_DIR to another directory; with --standby this one waits for its end\n`,
      stderr: "",
    });
    assert.equal(await berth.stop("SIGTERM"), 0);
    assert.deepEqual(await beside(berth, "down"), { code: 0, stdout: "stopped coder\n", stderr: "" });
    assert.deepEqual(await beside(berth, "down"), { code: 0, stdout: noEngine, stderr: "" });
    await rm(berth.stateDir, { recursive: true });
    assert.deepEqual(await beside(berth, "down"), { code: 0, stdout: noEngine, stderr: "" });
  });
});

describe("berth up", () => {
  for (const form of ["text", "json"]) {
    it(`stops its engines although its log is no longer read (${form})`, async () => {
      await using berth = await startBerth({ prepare: withSlot, env: { BERTH_LOG: form } });
      berth.child.stdout?.destroy();
      berth.child.stderr?.destroy();
      const slot = await berth.state("coder", "ready", "idle");
      // Every one of these is a line that cannot be written.
      for (const seconds of [5, 6, 7]) {
        await writeFile(join(berth.configDir, "slots/coder.toml"), `idle_seconds = ${seconds}\n${customSlot}`);
        await until("the edit counts", async () => Number((await berth.slot("coder"))["generation"]) === seconds - 3);
      }
      assert.equal((await berth.slot("coder"))["port"], slot["port"]);
      assert.equal(await berth.stop("SIGINT"), 0);
      await assert.rejects(fetch(`http://127.0.0.1:${String(slot["port"])}/health`));
      assert.equal((await beside(berth, "down")).stdout, noEngine);
    });
  }
});

describe("berth up whose state directory is deleted", () => {
  for (const isSlow of [false, true])
    it(`says so, finds its engine again, and leaves nothing when it is stopped (${isSlow ? "a slow deletion" : "at once"})`, async () => {
      await using berth = await startBerth({ prepare: withSlot });
      await berth.state("coder", "ready", "idle");
      const operator = await operatorOf(berth);
      const before = await engineOf(berth);
      const instance = join(berth.stateDir, "instance");
      const name = await readFile(instance, "utf8");
      const deleted = `${berth.stateDir}-deleted`;
      await rename(berth.stateDir, deleted);
      await rm(deleted, { recursive: true, maxRetries: 50, retryDelay: 10 });
      for (let times = 0; isSlow && times < 5; times += 1) {
        await until("the operator has written the name again", () => existsSync(instance));
        await rm(instance);
      }
      await until("that is told", () => /the state directory \S+ was deleted, or taken/.test(berth.log()));
      await until("the next operator has looked", async () => {
        const text = await readFile(join(berth.stateDir, "operator.json"), "utf8");
        const { pid, isSettled } = publishedOperatorSchema.parse(JSON.parse(text));
        return pid !== operator && isSettled;
      });
      assert.equal(await readFile(instance, "utf8"), name);
      const after = await engineOf(berth);
      // Without its record it is ended, and another one is started, on that port or on the next.
      if (after.pid !== before.pid)
        await until("the earlier engine has ended", () => startTimeOf(before.pid) === undefined);
      const health = `http://127.0.0.1:${after.port}/health`;
      assert.equal((await fetch(health)).status, 200);
      assert.equal(await berth.stop("SIGINT"), 0);
      await assert.rejects(fetch(health));
      assert.deepEqual([startTimeOf(before.pid), startTimeOf(after.pid)], [undefined, undefined]);
    });
});

describe("berth up whose operator does not end its engines", () => {
  for (const died of ["while it runs", "while it stops"]) {
    it(`ends them itself (it is killed ${died})`, async () => {
      await using berth = await startBerth({ prepare: withSlot });
      const slot = await berth.state("coder", "ready", "idle");
      const operator = await operatorOf(berth);
      // A stopped process does not handle the signal to end, like a process that hangs.
      process.kill(operator, died === "while it runs" ? "SIGKILL" : "SIGSTOP");
      if (died === "while it runs") await until("that is seen", () => /operator ended \(SIGKILL\)/.test(berth.log()));
      assert.equal(await berth.stop("SIGINT"), 0);
      if (died === "while it stops") assert.match(berth.log(), /the operator left engines running; ended coder/);
      await assert.rejects(fetch(`http://127.0.0.1:${String(slot["port"])}/health`));
      assert.equal((await beside(berth, "down")).stdout, noEngine);
    });
  }
});

describe("berth up that is stopped before its operator is ready", () => {
  it("does not wait for a Docker that does not answer", async () => {
    await using docker = await silentDocker();
    await using berth = await startBerth({ env: { SVC_RUNTIME: "docker", SVC_DOCKER_HOST: docker.url } });
    await until("Docker is asked", docker.isAsked);
    assert.equal(await berth.stop("SIGINT"), 0);
    // Nobody had to be killed.
    assert.doesNotMatch(berth.log(), /has not ended within/);
  });

  it("leaves no engine behind, although a slot has not been observed yet", async () => {
    await using docker = await silentDocker();
    await using berth = await startBerth({
      env: { SVC_DOCKER_HOST: docker.url },
      prepare: async (dirs) => {
        await withSlot(dirs);
        await writeFile(join(dirs.configDir, "slots/hung.toml"), `runtime = "docker"\n${customSlot}`);
      },
    });
    await until("an engine runs", () => /coder: ready/.test(berth.log()));
    await until("Docker is asked", docker.isAsked);
    assert.equal(await berth.stop("SIGINT"), 0);
    assert.deepEqual(await beside(berth, "down"), { code: 0, stdout: noEngine, stderr: "" });
  });
});

describe("berth up whose Docker hangs", () => {
  it("ends its processes in time, without SIGKILL", async () => {
    let isHung = false;
    await using docker = await startDockerDaemon((asked, response) => {
      if (isHung || asked.includes("/images/")) return;
      if (asked === "GET /events") response.writeHead(200).flushHeaders();
      else if (asked === "GET /containers/json") say(response, 200, []);
      else if (asked === "GET /version") say(response, 200, { Components: [] });
      else say(response, 404, { message: "no such thing" });
    });
    await using berth = await startBerth({
      env: { SVC_DOCKER_HOST: `unix://${docker.path}` },
      prepare: async (dirs) => {
        await withSlot(dirs);
        await writeFile(
          join(dirs.configDir, "slots/hung.toml"),
          'runtime = "docker"\nengine = "custom"\nimage = "x:1"\n',
        );
      },
    });
    await berth.state("coder", "ready", "idle");
    await until("a slot waits for Docker", () => docker.asked.some((what) => what.includes("/images/")));
    isHung = true;
    assert.equal(await berth.stop("SIGINT"), 0);
    assert.doesNotMatch(berth.log(), /has not ended within|left engines/);
    assert.deepEqual(await beside(berth, "down"), { code: 0, stdout: noEngine, stderr: "" });
  });
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

/** The engine of the slot `coder`, once it is published as ready. */
async function engineOf({ stateDir }: RunningBerth): Promise<{ pid: number; port: number }> {
  return await until("its engine is ready", async () => {
    const status = (await readPublished(stateDir, "coder"))?.status;
    const [{ pid, port } = {}] = status?.state === "ready" ? status.processes : [];
    return pid !== undefined && port !== undefined && { pid, port };
  });
}

async function operatorOf({ stateDir }: RunningBerth): Promise<number> {
  const { pid } = publishedOperatorSchema.parse(JSON.parse(await readFile(join(stateDir, "operator.json"), "utf8")));
  return pid;
}

describe("berth serve", () => {
  it("names the port that is taken, with what to do", async () => {
    const taken = createServer();
    const port = await listen(taken);
    try {
      await using berth = await startBerth({ args: ["serve", "--port", String(port)] });
      assert.equal(await berth.ended, 1);
      assert.match(
        berth.log(),
        new RegExp(
          `^\\S+ fatal gateway {2}port ${port} is taken; stop that program or set SVC_PORT to another port\n$`,
        ),
      );
    } finally {
      taken.close();
    }
  });

  it("--reload starts again with an edited berth.toml, and not with an invalid one", async () => {
    const [first, second] = [await freePort(), await freePort()];
    const settings = (port: string): string => `port = ${port}\nhost = "127.0.0.1"\n`;
    await using berth = await startBerth({
      args: ["serve", "--reload"],
      env: { SVC_PORT: "", SVC_HOST: "" },
      prepare: ({ configDir }) => writeFile(join(configDir, "berth.toml"), settings(String(first))),
    });
    const answers = async (port: number): Promise<boolean> =>
      (await fetch(`http://127.0.0.1:${port}/livez`).catch(() => undefined))?.ok === true;
    // By a rename: a file that is empty for a moment would be one without settings.
    const edit = async (port: string): Promise<void> => {
      await writeFile(join(berth.configDir, "edited.toml"), settings(port));
      await rename(join(berth.configDir, "edited.toml"), join(berth.configDir, "berth.toml"));
    };
    await until("it listens", () => answers(first));
    await edit("99999999");
    await until("the problem is told", () =>
      /reload +berth\.toml port must be.*keeps running unchanged/.test(berth.log()),
    );
    assert.ok(await answers(first));
    await edit(String(second));
    await until("it listens elsewhere", () => answers(second));
    assert.ok(!(await answers(first)));
    assert.equal(await berth.stop("SIGINT"), 0);
    assert.ok(!(await answers(second)));
  });
});

/** A gateway over the state of an operator that is started alone. */
async function gatewayOf({ env, url }: RunningBerth): Promise<RunningBerth> {
  const gateway = await startBerth({ args: ["serve"], env });
  await until("the gateway answers", async () => (await fetch(`${url}/livez`)).ok);
  return gateway;
}
