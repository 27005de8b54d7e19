import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it, mock } from "node:test";
import { DaemonRefusal } from "../../../src/runtimes/docker/daemon.ts";
import { FrameCutter, nanoseconds } from "../../../src/runtimes/docker/frames.ts";
import { labelIn, labelsFor, nameFor } from "../../../src/runtimes/docker/label.ts";
import { pullFailure } from "../../../src/runtimes/docker/pull-failure.ts";
import { PullProgress } from "../../../src/runtimes/docker/pull-progress.ts";
import { registryAuth, registryOf } from "../../../src/runtimes/docker/registry-auth.ts";
import { socketPath } from "../../../src/runtimes/docker/socket.ts";
import { refuseContextPlace, startRefusal } from "../../../src/runtimes/docker/start-refusal.ts";
import { workload } from "../../operator/fixture.ts";
import { later } from "../../support/later.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";

describe("a start that is refused", () => {
  const table: readonly [said: string, status: number, reason: string | undefined, message: RegExp][] = [
    [
      "driver failed programming external connectivity on endpoint x: Bind for 127.0.0.1:8081 failed: port is already allocated",
      500,
      "PortInUse",
      /port 8081/,
    ],
    ["rootlessport listen tcp 127.0.0.1:8081: bind: address already in use", 500, "PortInUse", /port 8081/],
    [
      'failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "serve": executable file not found in $PATH: unknown',
      400,
      "StartFailed",
      /exec: "serve": executable file not found in \$PATH$/,
    ],
    ['could not select device driver "" with capabilities: [[gpu]]', 500, "StartFailed", /NVIDIA container toolkit/],
    ["no command specified", 400, "StartFailed", /names no program .*give a command/],
    [
      "container create: no command or entrypoint provided, and no CMD or ENTRYPOINT from image",
      500,
      "StartFailed",
      /no command/,
    ],
    ["No such image: x:1", 404, undefined, /x/],
    ["something in the daemon broke", 500, undefined, /x/],
  ];
  for (const [said, status, reason, message] of table) {
    it(said.slice(0, 60), () => {
      const refusal = startRefusal(new DaemonRefusal(status, said), 8081);
      assert.equal(refusal?.reason, reason);
      if (refusal !== undefined) assert.match(refusal.message, message);
    });
  }
});

describe("a place for contexts that the daemon refuses", () => {
  const given = { ...workload(), contextPlace: { source: "/state/contexts/primary/main", target: "/berth/context" } };
  const table: readonly [what: string, said: string][] = [
    [
      "Docker without that directory, as with a daemon that sees other files",
      'invalid mount config for type "bind": bind source path does not exist: /state/contexts/primary/main',
    ],
    [
      "a user's Podman, to which the state directory is closed",
      "crun: cannot stat `/state/contexts/primary/main`: Permission denied: OCI permission denied",
    ],
    [
      "runc, of the path inside",
      'error mounting "/x" to rootfs at "/berth/context": mkdirat /var/lib/docker/rootfs/berth: read-only file system',
    ],
  ];
  for (const [what, said] of table) {
    it(what, () => {
      const error = new DaemonRefusal(500, said);
      assert.throws(() => refuseContextPlace(error, given), {
        name: "NoContextPlace",
        message: `its container cannot have it: ${said}`,
      });
      assert.doesNotThrow(() => refuseContextPlace(error, workload()));
    });
  }

  it("is not blamed for another refusal", () => {
    for (const error of [new DaemonRefusal(500, "bind source path does not exist: /models"), new Error("/state")])
      assert.doesNotThrow(() => refuseContextPlace(error, given));
  });
});

describe("a pull that failed", () => {
  const table: readonly [said: string, reason: string, isTerminal: boolean][] = [
    ["write /var/lib/docker/tmp/x: no space left on device", "NoSpace", false],
    ["no matching manifest for linux/arm64/v8 in the manifest list entries", "WrongPlatform", true],
    ["pull access denied for x, repository does not exist or may require 'docker login'", "ImageNotFound", true],
    ['Head "https://ghcr.io/v2/x/manifests/1": denied', "ImageNotFound", true],
    ["open /var/lib/docker/tmp/x: permission denied", "PullFailed", false],
    ["unexpected EOF", "PullFailed", false],
    ["unauthorized: authentication required", "Unauthorized", true],
    ['Head "http://r/v2/x/manifests/1": no basic auth credentials', "Unauthorized", true],
    ["manifest for x:1 not found: manifest unknown: manifest unknown", "ImageNotFound", true],
    ["dial tcp 127.0.0.1:5000: connect: connection refused", "PullFailed", false],
    ["net/http: TLS handshake timeout", "PullFailed", false],
    ["invalid reference format: repository name must be lowercase", "ImageNotFound", true],
    ['(HTTP code 500) server error - Get "https://r/v2/": dial tcp: network is unreachable', "PullFailed", false],
  ];
  for (const [said, reason, isTerminal] of table) {
    it(said.slice(0, 60), () => {
      const failure = pullFailure("x:1", new Error(said));
      assert.deepEqual([failure.reason, failure.isTerminal], [reason, isTerminal]);
      assert.ok(failure.message.startsWith("the image x:1 "));
      assert.ok(!failure.message.includes("HTTP code"));
    });
  }
});

describe("the progress of a pull", () => {
  it("is bytes over all layers, and has a total once each has begun", () => {
    const progress = new PullProgress(0);
    const say = (line: object): void => progress.take(JSON.stringify(line));
    say({ status: "Pulling from library/x", id: "1" });
    say({ status: "Already exists", id: "a" });
    say({ status: "Pulling fs layer", id: "b" });
    say({ status: "Pulling fs layer", id: "c" });
    say({ status: "Downloading", id: "b", progressDetail: { current: 40, total: 100 } });
    assert.deepEqual(progress.read(2000), { bytesDone: 40, bytesPerSecond: 20 });
    say({ status: "Downloading", id: "c", progressDetail: { current: 10, total: 50 } });
    say({ status: "Download complete", id: "b" });
    say({ status: "Extracting", id: "b", progressDetail: { current: 1, total: 300 } });
    assert.deepEqual(progress.read(1000), { bytesDone: 110, bytesTotal: 150, bytesPerSecond: 110 });
    progress.take("no JSON");
    assert.equal(progress.error, undefined);
    say({ error: "boom", errorDetail: { message: "boom" } });
    assert.equal(progress.error, "boom");
  });
});

describe("the progress of a pull that breaks off", () => {
  const layer = "b";
  const told = (lines: readonly object[]): PullProgress => {
    const progress = new PullProgress(0);
    for (const line of lines) progress.take(JSON.stringify({ id: layer, ...line }));
    return progress;
  };
  const begun = [
    { status: "Pulling fs layer" },
    { status: "Downloading", progressDetail: { current: 400, total: 1000 } },
    { status: "Retrying in 5 seconds", progressDetail: {} },
  ];

  it("keeps its progress, and says that the daemon waits", () => {
    const progress = told(begun);
    assert.equal(progress.isBroken, true);
    assert.deepEqual(progress.read(1000), { bytesDone: 400, bytesTotal: 1000, bytesPerSecond: 400 });
  });

  it("keeps its progress, though Docker counts the layer as whole when Docker closes the connection", () => {
    const [fetching = {}, some = {}, retrying = {}] = begun;
    const letGo = { status: "Downloading", progressDetail: { current: 1000, total: 1000 } };
    const broken = [fetching, some, letGo, retrying, retrying];
    assert.deepEqual(told(broken).read(1000), { bytesDone: 400, bytesTotal: 1000, bytesPerSecond: 400 });
    const goesOn = { status: "Downloading", progressDetail: { current: 50, total: 600 } };
    const letGoAgain = { status: "Downloading", progressDetail: { current: 600, total: 600 } };
    assert.equal(told([...broken, goesOn]).read().bytesDone, 450);
    assert.equal(told([...broken, goesOn, letGoAgain, retrying]).read().bytesDone, 450);
    assert.equal(told([fetching, letGo, retrying]).read().bytesDone, 0, "a break before a word of what has come");
  });

  it("continues its count where Docker reports only the rest, however often, and from zero where the layer begins anew", () => {
    const goesOn = { status: "Downloading", progressDetail: { current: 50, total: 600 } };
    const again = { status: "Downloading", progressDetail: { current: 10, total: 100 } };
    const anew = { status: "Downloading", progressDetail: { current: 10, total: 1000 } };
    assert.equal(told([...begun, goesOn]).isBroken, false);
    assert.deepEqual(told([...begun, goesOn]).read(1000), { bytesDone: 450, bytesTotal: 1000, bytesPerSecond: 450 });
    assert.equal(told([...begun, goesOn, again]).read().bytesDone, 910);
    assert.equal(told([...begun, goesOn, anew]).read().bytesDone, 10);
    assert.equal(told([...begun, goesOn, { status: "Download complete" }]).read().bytesDone, 1000);
  });

  it("knows how long the daemon has said nothing", () => {
    const progress = new PullProgress(0);
    assert.equal(progress.sinceLineMs(70_000), 70_000);
    progress.take('{"status":"Extracting","id":"b"}', 70_000);
    assert.equal(progress.sinceLineMs(80_000), 10_000);
  });

  it("has a total though Podman never reports a small layer's size", () => {
    const progress = told(begun.slice(0, 2));
    progress.take('{"status":"Pulling fs layer","id":"c"}');
    assert.equal(progress.read().bytesTotal, undefined);
    progress.take('{"status":"Download complete","id":"c"}');
    assert.equal(progress.read().bytesTotal, 1000);
  });
});

describe("the daemon's log frames", () => {
  const frame = (stream: number, text: string): Buffer => {
    const payload = Buffer.from(text);
    const head = Buffer.from([stream, 0, 0, 0, 0, 0, 0, 0]);
    head.writeUInt32BE(payload.length, 4);
    return Buffer.concat([head, payload]);
  };

  it("are cut wherever the chunks end, characters whole", () => {
    const bytes = Buffer.concat([
      frame(1, "2026-01-01T00:00:00.000000001Z grüße\n"),
      frame(2, "2026-01-01T00:00:00.000000002Z a part"),
    ]);
    for (let at = 0; at <= bytes.length; at++) {
      const cutter = new FrameCutter();
      const messages = [...cutter.push(bytes.subarray(0, at)), ...cutter.push(bytes.subarray(at))];
      assert.deepEqual(
        messages.map(({ stream, text, isWhole }) => [stream, text.toString(), isWhole]),
        [
          ["stdout", "grüße", true],
          ["stderr", "a part", false],
        ],
      );
    }
  });

  it("that are invalid are refused, not read for ever", () => {
    assert.throws(() => new FrameCutter().push(Buffer.from("HTTP/1.1 200 OK\r\n")), /log frame/);
  });

  it("have stamps that compare across zones and lengths", () => {
    assert.equal(nanoseconds("2026-01-01T00:00:00.5Z"), nanoseconds("2026-01-01T01:00:00.500000000+01:00"));
    assert.ok(nanoseconds("2026-01-01T00:00:00.000000001Z") > nanoseconds("2026-01-01T00:00:00Z"));
    assert.equal(nanoseconds("no stamp"), 0n);
  });
});

describe("credentials of registries", () => {
  it("are looked up by the reference's host", () => {
    for (const [image, registry] of [
      ["ghcr.io/a/b:1", "ghcr.io"],
      ["127.0.0.1:5000/b", "127.0.0.1:5000"],
      ["localhost/b", "localhost"],
      ["library/redis", "https://index.docker.io/v1/"],
      ["redis:7", "https://index.docker.io/v1/"],
    ] as const) {
      assert.equal(registryOf(image), registry);
    }
  });

  it("come from auths, identity tokens or a helper, and from nothing when there is nothing", async () => {
    await using directory = await tempDir();
    const env = { DOCKER_CONFIG: directory.path, PATH: `${join(directory.path, "bin")}:${process.env["PATH"] ?? ""}` };
    assert.equal(await registryAuth("ghcr.io/a", env), undefined);
    const file = join(directory.path, "config.json");
    await writeFile(file, "{ broken");
    assert.equal(await registryAuth("ghcr.io/a", env), undefined);
    const auth = Buffer.from("ada:pass:word").toString("base64");
    await writeFile(
      file,
      JSON.stringify({
        auths: { "https://old.example/v1/": { auth }, "ghcr.io": { auth }, "quay.io": { identitytoken: "idt" } },
        credHelpers: { "r.example": "test" },
      }),
    );
    assert.deepEqual(await registryAuth("ghcr.io/a", env), {
      username: "ada",
      password: "pass:word",
      serveraddress: "ghcr.io",
    });
    assert.deepEqual(await registryAuth("quay.io/a", env), { identitytoken: "idt", serveraddress: "quay.io" });
    assert.equal((await registryAuth("old.example/a", env))?.serveraddress, "old.example");
    assert.equal(await registryAuth("example/a", env), undefined);
    await mkdir(join(directory.path, "bin"));
    const helper = join(directory.path, "bin/docker-credential-test");
    await writeFile(helper, '#!/bin/sh\nread -r host\necho "{\\"Username\\":\\"u\\",\\"Secret\\":\\"for $host\\"}"\n');
    await chmod(helper, 0o755);
    assert.deepEqual(await registryAuth("r.example/a", env), {
      username: "u",
      password: "for r.example",
      serveraddress: "r.example",
    });
  });
});

it("a credential helper that leaves a program behind, with its output, has a time limit all the same", async () => {
  await using directory = await tempDir();
  const pidFile = join(directory.path, "pid");
  const script = `#!/bin/sh\nsleep 600 &\necho $! >${pidFile}.new\nmv ${pidFile}.new ${pidFile}\n`;
  await writeFile(join(directory.path, "docker-credential-slow"), script, { mode: 0o755 });
  await writeFile(join(directory.path, "config.json"), JSON.stringify({ credsStore: "slow" }));
  const env = { DOCKER_CONFIG: directory.path, PATH: `${directory.path}:${process.env["PATH"] ?? ""}` };
  const limit = new AbortController();
  mock.method(AbortSignal, "timeout", () => limit.signal);
  try {
    const asked = later(registryAuth("ghcr.io/a", env));
    await until("it has left a program", () => existsSync(pidFile));
    limit.abort(new Error("its time is over"));
    assert.equal(await asked, undefined);
    const pid = (await readFile(pidFile, "utf8")).trim();
    await until("that program has ended too", () => !existsSync(`/proc/${pid}`));
  } finally {
    mock.restoreAll();
  }
});

describe("labels and names", () => {
  const workload = {
    slot: "primary",
    role: "rerank",
    ordinal: 0,
    hash: "h",
    runtime: "docker",
    command: [],
    env: {},
    workingDir: undefined,
    host: "127.0.0.1",
    port: 8081,
    stopSeconds: 1,
  } as const;

  it("are read back as they were given, by their own instance only", () => {
    const labels = labelsFor(workload, "one", "n");
    assert.deepEqual(labelIn(labels, "one"), {
      instance: "one",
      slot: "primary",
      role: "rerank",
      ordinal: 0,
      hash: "h",
      port: 8081,
      name: "n",
    });
    assert.equal(labelIn(labels, "another"), undefined);
    assert.equal(labelIn({ ...labels, "dev.berth.slot": "../x" }, "one"), undefined);
    assert.equal(labelIn(undefined, "one"), undefined);
  });

  it("mean ordinal 0 where a version without replicas made them", () => {
    const { ["dev.berth.ordinal"]: _ordinal, ...labels } = labelsFor(workload, "one", "n");
    assert.equal(labelIn(labels, "one")?.ordinal, 0);
    assert.equal(labelIn(labelsFor({ ...workload, ordinal: 3 }, "one", "n"), "one")?.ordinal, 3);
  });

  it("name the variable that holds a bearer, never the bearer", () => {
    const withBearer = { ...workload, bearer: { env: "LLAMA_API_KEY" } };
    assert.equal(labelIn(labelsFor(withBearer, "one", "n", true), "one")?.bearer, "LLAMA_API_KEY");
    assert.equal(labelIn(labelsFor(withBearer, "one", "n", false), "one")?.bearer, undefined);
  });

  it("never give two processes the same name", () => {
    const names = (["main", "rerank"] as const).flatMap((role) =>
      [0, 1].flatMap((ordinal) =>
        ["a", "a-rerank", "a-1"].map((slot) => nameFor({ slot, role, ordinal }, "0f8e-1234567890")),
      ),
    );
    assert.equal(new Set(names).size, 12);
    assert.equal(names[0], "berth-1234567890-a", "as versions without replicas named it");
  });
});

describe("the daemon's socket", () => {
  it("is DOCKER_HOST's, and of this machine", () => {
    assert.equal(socketPath(undefined), "/var/run/docker.sock");
    assert.equal(socketPath("unix:///run/podman/podman.sock"), "/run/podman/podman.sock");
    for (const none of ["", "unix://"]) assert.equal(socketPath(none), "/var/run/docker.sock");
    for (const other of ["tcp://10.0.0.1:2375", "garbage"]) assert.equal(socketPath(other), undefined);
  });
});
