import assert from "node:assert/strict";
import { chmod, mkdir } from "node:fs/promises";
import { createServer, type RequestListener } from "node:http";
import { join } from "node:path";
import { describe, it } from "node:test";
import { openDemandWriter } from "../../../src/store/state/demand.ts";
import { acquireLock } from "../../../src/store/state/lock.ts";
import { keepAdmin } from "../../../src/store/auth/admin.ts";
import { TokenStore } from "../../../src/store/auth/tokens.ts";
import { say, startDockerDaemon } from "../../doubles/docker-daemon.ts";
import { runBerth } from "../../support/command.ts";
import { listen } from "../../support/listen.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { doctorSite, facts, operatorRecord, type DoctorSite } from "./site.ts";

/** A DOUBLE of whatever listens on a port. */
async function stranger(
  port: number,
  answer: RequestListener = (_, response) => response.end(),
): Promise<AsyncDisposable> {
  const server = createServer(answer);
  await listen(server, port);
  return {
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** A DOUBLE of a gateway, as far as a doctor asks it. */
const gateway =
  (health: object): RequestListener =>
  ({ url }, response) => {
    response.end(JSON.stringify(url === "/api/status" ? { name: "berth", version: "1.2.3" } : health));
  };

/** The demand of a gateway that lives until the result is disposed, however slow the machine is. */
async function demandOf(site: DoctorSite): Promise<AsyncDisposable> {
  const writer = await openDemandWriter(site.stateDir, "g");
  const write = (): Promise<void> => writer.write({ slots: {} });
  await write();
  const beats = setInterval(() => void write(), 500);
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(beats);
      await writer[Symbol.asyncDispose]();
    },
  };
}

describe("berth doctor", { concurrency: true }, () => {
  it("finds nothing wrong where nothing is yet", async () => {
    await using site = await doctorSite();
    assert.equal(
      await site.examine(),
      `ok    node: 24.1.0
ok    settings: the environment and berth.toml are valid
warn  configuration: DIR/config is not there: nothing is declared
      → mkdir -p DIR/config/slots, then \`berth slot create\` or a manifest of yours
ok    state: DIR/state is made by the first start
warn  operator: none runs with DIR/state
      → \`berth up\` starts one with a gateway, \`berth operator\` one alone
ok    port: API is free
ok    operator port: OPERATOR is free
ok    slot ports: FIRST to LAST: 2 free, 0 of engines
ok    tokens: 0, for their owner alone
ok    access: for this machine alone, at 127.0.0.1:API
ok    llama engine: llama-server at DIR/bin/llama-server
ok    containers: not used: SVC_RUNTIME is process
ok    disk: state: 50.0 GiB free of 100.0 GiB at /state
ok    devices: none of a GPU or NPU; backend auto is cpu for llama
`,
    );
  });

  it("reports a running service, and the owner of each port", async () => {
    await using site = await doctorSite();
    await site.put("config/slots/primary.toml", '[model]\ndefault = "tiny"\n');
    await site.put("config/upstreams/cloud.toml", 'base_url = "https://x.example/v1"\nmodels = [{ ref = "a" }]\n');
    await site.put("state/operator.json", operatorRecord(site));
    await using _lock = await acquireLock(join(site.stateDir, "operator.lock"));
    await using _demand = await demandOf(site);
    await site.put("state/processes/primary.main.json", JSON.stringify({ port: site.ports.slots[0] }));
    await using _engine = await stranger(site.ports.slots[0]);
    await using _operator = await stranger(site.ports.operator);
    await using _gateway = await stranger(site.ports.api, gateway({ status: "ok", checks: {} }));
    await using daemon = await startDockerDaemon((_asked, response) => say(response, 200, { Components: [] }));
    const tokens = new TokenStore(site.stateDir);
    await tokens.create({ label: "me", scope: "admin" });
    await tokens[Symbol.asyncDispose]();
    await keepAdmin(site.stateDir, "ada", "correct horse");
    const env = { SVC_AUTH_ENABLED: "1", SVC_RUNTIME: "auto", SVC_DOCKER_HOST: `unix://${daemon.path}` };
    assert.equal(
      (await site.examine(env)).replaceAll(daemon.path, "SOCKET"),
      `ok    node: 24.1.0
ok    settings: the environment and berth.toml are valid
ok    configuration: DIR/config: slots 1, models 0, upstreams 1
ok    manifests: valid
ok    state: DIR/state
ok    operator: process PID, heartbeat within 5 s
ok    port: API: the gateway answers, version 1.2.3
ok    service: healthy
ok    operator port: OPERATOR: the operator answers
ok    slot ports: FIRST to LAST: 1 free, 1 of engines
ok    tokens: 1, for their owner alone
ok    access: by token, or through a proxy to 127.0.0.1:API
ok    proxy: svc.local for ada; \`berth proxy check\` goes through it
ok    llama engine: llama-server at DIR/bin/llama-server
ok    containers: Docker answers at SOCKET
ok    disk: state: 50.0 GiB free of 100.0 GiB at /state
ok    devices: none of a GPU or NPU; backend auto is cpu for llama
`,
    );
  });

  it("says what to do about everything that is wrong", async () => {
    await using site = await doctorSite();
    await site.put("config/slots/primary.toml", "enabled = tru\n");
    await site.put("config/slots/boxed.toml", 'runtime = "docker"\n[model]\ndefault = "tiny"\n');
    const heartbeat = new Date(site.now.getTime() - 40_000).toISOString();
    const problems = [{ reason: "SourceEmpty", message: "slots holds no manifest any more" }];
    const record = { heartbeat, isPaused: true, configDir: "/etc/other", problems };
    await site.put("state/operator.json", operatorRecord(site, record));
    await site.put("state/models/Модель 1.gguf", "");
    await using _lock = await acquireLock(join(site.stateDir, "operator.lock"));
    await site.put("state/auth/tokens/a.json", "{}");
    await chmod(join(site.stateDir, "auth"), 0o700);
    await chmod(join(site.stateDir, "auth/tokens"), 0o700);
    await chmod(site.stateDir, 0o777);
    await using _engine = await stranger(site.ports.slots[1]);
    await using _operator = await stranger(site.ports.operator, (_, response) => response.writeHead(404).end());
    await using _other = await stranger(site.ports.api);
    const env = {
      SVC_AUTH_ENABLED: "1",
      SVC_HOST: "0.0.0.0",
      SVC_HOSTNAME: "berth.example.com",
      SVC_DOCKER_HOST: `unix://${site.stateDir}/docker.sock`,
      SVC_ENGINE_USER: "no-such-user",
      SVC_LLAMA_SERVER: await site.put("bin/broken", "#!/bin/sh\nexit 3\n"),
      SVC_UNHEARD_OF_THING: "1",
    };
    const node = { uid: 1000, gid: 109, mode: "0660", group: "render", accessible: false };
    const why = "exists, but uid 1000 may not read and write it: mode 0660: group render (109) may, which it is not in";
    const probe = async (): Promise<typeof facts> => ({
      ...facts,
      disks: [{ use: "models", path: "/models", total_bytes: null, free_bytes: 5 * 1024 ** 2, evidence: [] }],
      devices: [{ path: "/dev/dri/renderD128", problem: why, ...node }],
      problems: [{ source: "/sys/bus/pci", says: "cannot be read: EACCES" }],
    });
    assert.equal(
      await site.examine(env, { nodeVersion: "20.1.0", probe }),
      `fail  node: 20.1.0 runs this, and Berth needs 24
      → run bin/berth, which finds its own
warn  settings: SVC_UNHEARD_OF_THING is not a setting and is ignored
      → correct it; settings of a file are in DIR/config
ok    configuration: DIR/config: slots 2, models 0, upstreams 0
fail  manifests: DIR/config/slots/primary.toml:1:11: this is no value; texts stand in quotes
      → correct it; the last good spec runs meanwhile
fail  state: DIR/state may be written by everybody (mode 777): everybody who writes there may create tokens and run programs
      → chmod go-w DIR/state
warn  models: not offered, since no model may be called like the file: DIR/state/models/Модель 1.gguf
      → rename such a file to letters, digits and . _ : @ -
fail  operator: process PID holds the lock, and its last heartbeat is 40 s old
      → its log has the reason; stop it and start it again: engines keep running meanwhile
warn  operator: it is paused: it plans and starts nothing
      → start it again without --paused to have it act
warn  operator: it watches /etc/other, and this command checks DIR/config
      → SVC_CONFIG_DIR=/etc/other berth doctor checks the same directory
warn  operator: SourceEmpty: slots holds no manifest any more
      → until then what was in force before stays so
fail  port: API is taken by another program
      → stop that program, or set SVC_PORT to another port
fail  operator port: OPERATOR is taken by another program
      → stop that program, or set SVC_OPERATOR_PORT to another port
warn  slot ports: FIRST to LAST: 1 free, 0 of engines, taken by others: LAST
      → automatic ports pass over them; SVC_SLOT_PORTS names another range
fail  tokens: open to others than their owner: DIR/state/auth/tokens/a.json
      → chmod -R go= DIR/state/auth
warn  access: tokens travel unencrypted to 0.0.0.0:API
      → leave SVC_HOST unset and put a proxy before it
fail  proxy: berth.example.com is a public name, and SVC_TLS_EMAIL is not set
      → set it to an address that is read
fail  llama engine: DIR/bin/broken does not run: --version ends with code 3
      → build it again for this machine
fail  containers: the Docker daemon at DIR/state/docker.sock does not answer: there is no such socket; is Docker, or Podman's service, installed and running?
      → start it, or have slots run as processes: boxed need it
warn  disk: models: 5.0 MiB free at /models
      → make room, or name another place
warn  devices: /dev/dri/renderD128 ${why}
      → add the user that runs Berth to group render (usermod -aG), and log in again
warn  devices: /sys/bus/pci cannot be read: EACCES
      → what is there is not known; \`berth probe -o wide\` tells more
`,
    );
  });

  it("stops at settings that are wrong: the rest follows from them", async () => {
    await using site = await doctorSite();
    assert.equal(
      await site.examine({ SVC_PRT: "1", SVC_HOLD_SECONDS: "soon" }),
      `ok    node: 24.1.0
fail  settings: SVC_PRT is not a setting; did you mean SVC_PORT?
      → correct it, and run the check again: the rest follows from the settings
fail  settings: SVC_HOLD_SECONDS must be a whole number
      → correct it, and run the check again: the rest follows from the settings
`,
    );
  });

  /** The lines of one check, and what follows them. */
  const linesOf = (text: string, check: string): string =>
    text
      .split(/\n(?=ok|warn|fail)/)
      .filter((line) => line.slice(6).startsWith(`${check}:`))
      .join("\n")
      .trimEnd();

  it("reports a heartbeat that is ahead of the clock, and an operator without a heartbeat", async () => {
    await using site = await doctorSite();
    await mkdir(site.stateDir);
    await using _lock = await acquireLock(join(site.stateDir, "operator.lock"));
    assert.equal(
      linesOf(await site.examine(), "operator"),
      "warn  operator: process PID holds the lock and has not published its heartbeat yet\n      → run this check again in a moment",
    );
    await site.put(
      "state/operator.json",
      operatorRecord(site, { heartbeat: new Date(site.now.getTime() + 90_000).toISOString() }),
    );
    assert.match(
      linesOf(await site.examine(), "operator"),
      /^fail {2}operator: the heartbeat of process PID is 90 s ahead/,
    );
    assert.equal(
      linesOf(await site.examine(), "port"),
      "warn  port: API is free: no gateway runs\n      → `berth serve` starts one, `berth up` both",
    );
  });

  it("distinguishes a service of another state directory from its own, and reports an unhealthy one", async () => {
    await using site = await doctorSite();
    const conditions = {
      status: "degraded",
      counts: [{ kind: "Upstream", type: "Stalled", reason: "NoKey", count: 2 }],
    };
    const checks = { slots: { status: "degraded", failed: ["primary", "img"] }, disk: { status: "ok" }, conditions };
    await using _gateway = await stranger(site.ports.api, gateway({ status: "degraded", checks }));
    assert.equal(
      linesOf(await site.examine(), "port"),
      "fail  port: API is that of another Berth (1.2.3), with another state directory\n      → set SVC_PORT to another, or SVC_STATE_DIR to that of the service that runs",
    );
    await using _demand = await demandOf(site);
    assert.equal(
      linesOf(await site.examine(), "service"),
      "warn  service: degraded: slots (failed primary,img), conditions (counts Upstream Stalled NoKey 2)\n      → `berth status` and `berth slot list` tell more",
    );
  });

  for (const [what, env, check, line] of [
    [
      "an address of another machine",
      { SVC_HOST: "192.0.2.1" },
      "port",
      "fail  port: 192.0.2.1 is no address of this machine",
    ],
    ["any port", { SVC_PORT: "0" }, "port", "ok    port: SVC_PORT is 0: any free one"],
    [
      "any port of the operator",
      { SVC_OPERATOR_PORT: "0" },
      "operator port",
      "ok    operator port: SVC_OPERATOR_PORT is 0: any free one",
    ],
    [
      "an open API",
      { SVC_HOST: "0.0.0.0" },
      "access",
      "warn  access: authentication is off: everybody who reaches 0.0.0.0:API may do everything",
    ],
    [
      "authentication without tokens",
      { SVC_AUTH_ENABLED: "1" },
      "tokens",
      "warn  tokens: authentication is on, and there is none",
    ],
    [
      "authentication without a proxy",
      { SVC_AUTH_ENABLED: "1" },
      "proxy",
      "warn  proxy: there is no administrator: no proxy has been rendered",
    ],
    [
      "a models directory that cannot be written",
      { SVC_MODELS_DIR: "/etc/passwd/models" },
      "models",
      "warn  models: /etc/passwd/models cannot be written (ENOTDIR): no model can be fetched into it",
    ],
    [
      "no engine for llama",
      { SVC_LLAMA_SERVER: "none" },
      "llama engine",
      "warn  llama engine: neither llama-server nor the embedded engine is here",
    ],
    [
      "a llama-server that is none",
      { SVC_LLAMA_SERVER: "/nowhere" },
      "llama engine",
      "fail  llama engine: SVC_LLAMA_SERVER names /nowhere, which is not an executable file",
    ],
    [
      "no Docker where none is needed",
      { SVC_RUNTIME: "auto", SVC_DOCKER_HOST: "unix:///nowhere.sock" },
      "containers",
      "ok    containers: /nowhere.sock is not there: engines run as processes",
    ],
    [
      "Docker as the runtime",
      { SVC_RUNTIME: "docker", SVC_DOCKER_HOST: "unix:///nowhere.sock" },
      "containers",
      "fail  containers: the Docker daemon at /nowhere.sock does not answer: there is no such socket; is Docker, or Podman's service, installed and running?",
    ],
  ] as const) {
    it(`recognises ${what}`, async () => {
      await using site = await doctorSite();
      assert.equal(linesOf(await site.examine(env), check).split("\n")[0], line);
    });
  }

  it("runs llama-server with the environment that the operator gives it, and with nothing else", async () => {
    await using site = await doctorSite();
    const needy = '#!/bin/sh\n[ "$LD_LIBRARY_PATH" = /opt/cuda/lib ] && [ -z "$SVC_TOKEN" ]\n';
    const env = { SVC_LLAMA_SERVER: await site.put("bin/needy", needy), SVC_TOKEN: "svc_secret" };
    assert.match(
      linesOf(await site.examine(env), "llama engine"),
      /^fail {2}llama engine: DIR\/bin\/needy does not run/,
    );
    const whole = { ...env, LD_LIBRARY_PATH: "/opt/cuda/lib" };
    assert.equal(
      linesOf(await site.examine(whole), "llama engine"),
      "ok    llama engine: llama-server at DIR/bin/needy",
    );
  });

  it("names the slots whose program is not there, although another one is", async () => {
    await using site = await doctorSite();
    await site.put("config/slots/coder.toml", 'program = "embedded"\n[model]\ndefault = "m"\n');
    assert.equal(
      linesOf(await site.examine(), "llama engine").split("\n")[0],
      "fail  llama engine: the program is not here that these slots name: coder",
    );
  });

  it("names the slots that need a missing engine, and recognises the embedded engine", async () => {
    await using site = await doctorSite();
    await site.put("config/slots/primary.toml", '[model]\ndefault = "tiny"\n');
    const env = { SVC_LLAMA_SERVER: "none" };
    assert.match(
      linesOf(await site.examine(env), "llama engine"),
      /^fail {2}llama engine: none is here, and primary need it\n/,
    );
    const embedded = (): readonly string[] => ["node", "/engines/main.ts"];
    assert.equal(
      linesOf(await site.examine(env, { embedded }), "llama engine"),
      "ok    llama engine: the embedded one, /engines/main.ts",
    );
  });

  it("reports an invalid state directory, slot ports that are all taken, and the user as whom root runs engines", async () => {
    await using site = await doctorSite();
    await site.put("state", "");
    await using _first = await stranger(site.ports.slots[0]);
    await using _last = await stranger(site.ports.slots[1]);
    const text = await site.examine({}, { uid: 0 });
    assert.match(linesOf(text, "state"), /^fail {2}state: DIR\/state is no directory\n/);
    assert.match(
      linesOf(text, "slot ports"),
      /^fail {2}slot ports: FIRST to LAST: 0 free, 0 of engines, taken by others: FIRST, LAST\n/,
    );
    assert.match(linesOf(text, "user"), /^warn {2}user: engines that are processes run as root\n/);
  });

  it("reports checks that could not run", async () => {
    await using site = await doctorSite();
    await site.put("config", "");
    await mkdir(join(site.stateDir, "operator.lock"), { recursive: true });
    await site.put("state/auth/tokens", "");
    const text = await site.examine();
    assert.match(linesOf(text, "configuration"), /^fail {2}configuration: DIR\/config cannot be read \(ENOTDIR\)\n/);
    assert.match(linesOf(text, "operator"), /^warn {2}operator: whether one runs cannot be seen \(EISDIR\)\n/);
    assert.match(linesOf(text, "tokens"), /^warn {2}tokens: DIR\/state\/auth cannot be read \(ENOTDIR\)\n/);
  });

  it("ends with 1 where a check fails, and counts; as JSON for programs", async () => {
    await using directory = await tempDir();
    const env = {
      HOME: directory.path,
      SVC_CONFIG_DIR: directory.path,
      SVC_STATE_DIR: join(directory.path, "state"),
      SVC_LLAMA_SERVER: "/nowhere",
      SVC_PORT: "0",
    };
    const { code, stdout, stderr } = await runBerth(["doctor"], env);
    assert.deepEqual([code, stderr], [1, ""]);
    assert.match(stdout, /\n[1-9]\d* failed, \d+ warnings?, \d+ ok\n$/);
    const asked = await runBerth(["doctor", "-o", "json"], env);
    const told: unknown = JSON.parse(asked.stdout);
    assert.ok(typeof told === "object" && told !== null && "data" in told && Array.isArray(told.data));
    assert.deepEqual(
      told.data.find((each: { check: string }) => each.check === "llama engine"),
      {
        check: "llama engine",
        status: "fail",
        message: "SVC_LLAMA_SERVER names /nowhere, which is not an executable file",
        next: "correct SVC_LLAMA_SERVER, or unset it",
      },
    );
  });
});
