import assert from "node:assert/strict";
import { chmod } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { acquireLock } from "../../../src/store/state/lock.ts";
import { keepAdmin } from "../../../src/store/auth/admin.ts";
import { TokenStore } from "../../../src/store/auth/tokens.ts";
import { say, startDockerDaemon } from "../../doubles/docker-daemon.ts";
import { demandOf, doctorSite, facts, gateway, operatorRecord, stranger } from "./site.ts";

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
});
