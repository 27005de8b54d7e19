import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { acquireLock } from "../../../src/store/state/lock.ts";
import { gpu } from "../../hardware/parts.ts";
import { runBerth } from "../../support/command.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { demandOf, doctorSite, facts, gateway, operatorRecord, stranger } from "./site.ts";

const auth = { SVC_AUTH_ENABLED: "1" };
const none = { SVC_LLAMA_SERVER: "none" };
const nowhere = "unix:///nowhere.sock";
const docker =
  "the Docker daemon at /nowhere.sock does not answer: there is no such socket; is Docker, or Podman's service, installed and running?";

describe("a check of berth doctor", { concurrency: 4 }, () => {
  for (const [check, env, line] of [
    ["port", { SVC_HOST: "192.0.2.1" }, "fail  port: 192.0.2.1 is no address of this machine"],
    ["port", { SVC_PORT: "0" }, "ok    port: SVC_PORT is 0: any free one"],
    ["operator port", { SVC_OPERATOR_PORT: "0" }, "ok    operator port: SVC_OPERATOR_PORT is 0: any free one"],
    [
      "access",
      { SVC_HOST: "0.0.0.0" },
      "warn  access: authentication is off: everybody who reaches 0.0.0.0:API may do everything",
    ],
    ["tokens", auth, "warn  tokens: authentication is on, and there is none"],
    ["proxy", auth, "warn  proxy: there is no administrator: no proxy has been rendered"],
    [
      "models",
      { SVC_MODELS_DIR: "/etc/passwd/models" },
      "warn  models: /etc/passwd/models cannot be written (ENOTDIR): no model can be fetched into it",
    ],
    ["llama engine", none, "warn  llama engine: neither llama-server nor the embedded engine is here"],
    [
      "llama engine",
      { SVC_LLAMA_SERVER: "/nowhere" },
      "fail  llama engine: SVC_LLAMA_SERVER names /nowhere, which is not an executable file",
    ],
    [
      "containers",
      { SVC_RUNTIME: "auto", SVC_DOCKER_HOST: nowhere },
      "ok    containers: /nowhere.sock is not there: engines run as processes",
    ],
    ["containers", { SVC_RUNTIME: "docker", SVC_DOCKER_HOST: nowhere }, `fail  containers: ${docker}`],
  ] as const)
    it(`finds: ${line}`, async () => {
      await using site = await doctorSite();
      assert.equal((await site.check(check, env)).split("\n")[0], line);
    });

  it("finds a heartbeat that is ahead of the clock, an operator without a heartbeat, and no gateway beside it", async () => {
    await using site = await doctorSite();
    await mkdir(site.stateDir);
    await using _lock = await acquireLock(join(site.stateDir, "operator.lock"));
    assert.equal(
      await site.check("operator"),
      "warn  operator: process PID holds the lock and has not published its heartbeat yet\n      → run this check again in a moment",
    );
    const heartbeat = new Date(site.now.getTime() + 90_000).toISOString();
    await site.put("state/operator.json", operatorRecord(site, { heartbeat }));
    const text = await site.examine();
    assert.match(text, /^fail {2}operator: the heartbeat of process PID is 90 s ahead/m);
    const noGateway = "warn  port: API is free: no gateway runs\n      → `berth serve` starts one, `berth up` both\n";
    assert.ok(text.includes(noGateway), text);
  });

  it("distinguishes a service of another state directory from its own, and finds an unhealthy one", async () => {
    await using site = await doctorSite();
    const counts = [{ kind: "Upstream", type: "Stalled", reason: "NoKey", count: 2 }];
    const checks = {
      slots: { status: "degraded", failed: ["primary", "img"] },
      disk: { status: "ok" },
      conditions: { status: "degraded", counts },
    };
    await using _gateway = await stranger(site.ports.api, gateway({ status: "degraded", checks }));
    assert.equal(
      await site.check("port"),
      "fail  port: API is that of another Berth (1.2.3), with another state directory\n      → set SVC_PORT to another, or SVC_STATE_DIR to that of the service that runs",
    );
    await using _demand = await demandOf(site);
    assert.equal(
      await site.check("service"),
      "warn  service: degraded: slots (failed primary,img), conditions (counts Upstream Stalled NoKey 2)\n      → `berth status` and `berth slot list` tell more",
    );
  });

  it("runs llama-server with the environment that the operator gives it, and with nothing else", async () => {
    await using site = await doctorSite();
    const needy = '#!/bin/sh\n[ "$LD_LIBRARY_PATH" = /opt/cuda/lib ] && [ -z "$SVC_TOKEN" ]\n';
    const env = { SVC_LLAMA_SERVER: await site.put("bin/needy", needy), SVC_TOKEN: "svc_secret" };
    assert.match(await site.check("llama engine", env), /^fail {2}llama engine: DIR\/bin\/needy does not run/);
    const whole = { ...env, LD_LIBRARY_PATH: "/opt/cuda/lib" };
    assert.equal(await site.check("llama engine", whole), "ok    llama engine: llama-server at DIR/bin/needy");
  });

  it("names the slots that lack their engine, and recognises the embedded engine", async () => {
    await using site = await doctorSite();
    await site.put("config/slots/primary.toml", '[model]\ndefault = "tiny"\n');
    assert.match(await site.check("llama engine", none), /^fail {2}llama engine: none is here, and primary need it\n/);
    const embedded = (): readonly string[] => ["node", "/engines/main.ts"];
    assert.equal(
      await site.check("llama engine", none, { embedded }),
      "ok    llama engine: the embedded one, /engines/main.ts",
    );
    await site.put("config/slots/coder.toml", 'program = "embedded"\n[model]\ndefault = "m"\n');
    assert.match(
      await site.check("llama engine"),
      /^fail {2}llama engine: the program is not here that these slots name: coder\n/,
    );
  });

  it("finds an invalid state directory, slot ports that are all taken, and root as the user of engines", async () => {
    await using site = await doctorSite();
    await site.put("state", "");
    await using _first = await stranger(site.ports.slots[0]);
    await using _last = await stranger(site.ports.slots[1]);
    const text = await site.examine({}, { uid: 0 });
    assert.match(text, /^fail {2}state: DIR\/state is no directory\n/m);
    assert.match(text, /^fail {2}slot ports: FIRST to LAST: 0 free, 0 of engines, taken by others: FIRST, LAST\n/m);
    assert.match(text, /^warn {2}user: engines that are processes run as root\n/m);
  });

  it("says that it could not run", async () => {
    await using site = await doctorSite();
    await site.put("config", "");
    await mkdir(join(site.stateDir, "operator.lock"), { recursive: true });
    await site.put("state/auth/tokens", "");
    const text = await site.examine();
    assert.match(text, /^fail {2}configuration: DIR\/config cannot be read \(ENOTDIR\)\n/m);
    assert.match(text, /^warn {2}operator: whether one runs cannot be seen \(EISDIR\)\n/m);
    assert.match(text, /^warn {2}tokens: DIR\/state\/auth cannot be read \(ENOTDIR\)\n/m);
  });

  const server = (devices: string): string =>
    `#!/bin/sh\ncase $1 in --version) echo version: 1;; --list-devices) echo Available devices:; echo "${devices}";; esac\n`;
  const withGpu = { ...facts, gpus: [gpu({ id: "0000:00:06.0", vendor: "nvidia", backends: ["cuda"], evidence: [] })] };
  const h100 = server("  CUDA0: NVIDIA H100 80GB HBM3 (81079 MiB, 80552 MiB free)");
  const cuda = 'backend = "cuda"\n[model]\ndefault = "tiny"\n';
  for (const [what, program, hardware, slot, said] of [
    [
      "llama-server has a GPU",
      h100,
      withGpu,
      cuda,
      /^ok {4}gpu: llama-server computes on CUDA0 \(NVIDIA H100 80GB HBM3\)/,
    ],
    [
      "a slot wants a GPU, and llama-server has none",
      server("  (none)"),
      facts,
      cuda,
      /^warn {2}gpu: DIR\/bin\/llama-server --list-devices names no GPU, which chat would compute on\n.*LD_LIBRARY_PATH/,
    ],
    [
      "there is a GPU that nothing would use",
      server("  (none)"),
      withGpu,
      undefined,
      /^warn {2}gpu: .* and there is one: slots with backend auto/,
    ],
    [
      "llama-server lists no devices",
      "#!/bin/sh\necho version: 1\n",
      withGpu,
      undefined,
      /^warn {2}gpu: .* does not list its devices/,
    ],
    ["there is no GPU, and no slot wants one", server("  (none)"), facts, undefined, /^$/],
  ] as const)
    it(`asks llama-server for its devices: ${what}`, async () => {
      await using site = await doctorSite();
      const path = await site.put("bin/llama-server", program);
      if (slot !== undefined) await site.put("config/slots/chat.toml", slot);
      assert.match(await site.check("gpu", { SVC_LLAMA_SERVER: path }, { probe: async () => hardware }), said);
    });
});

it("berth doctor ends with 1 where a check fails, and counts; as JSON for programs", async () => {
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
  const { data }: { data: { check: string }[] } = JSON.parse(asked.stdout);
  assert.deepEqual(
    data.find(({ check }) => check === "llama engine"),
    {
      check: "llama engine",
      status: "fail",
      message: "SVC_LLAMA_SERVER names /nowhere, which is not an executable file",
      next: "correct SVC_LLAMA_SERVER, or unset it",
    },
  );
});
