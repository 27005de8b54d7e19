import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
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

it("a start that is refused is named, unless the daemon failed", () => {
  const table: readonly [said: string, status: number, reason: string | undefined, message: RegExp][] = [
    [
      "driver failed programming external connectivity: Bind for 127.0.0.1:8081 failed: port is already allocated",
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
    ["No such image: x:1", 404, undefined, /^$/],
    ["something in the daemon broke", 500, undefined, /^$/],
  ];
  for (const [said, status, reason, message] of table) {
    const refusal = startRefusal(new DaemonRefusal(status, said), 8081);
    assert.equal(refusal?.reason, reason, said);
    assert.match(refusal?.message ?? "", message);
  }
});

it("a place for contexts that the daemon refuses is named, and not blamed for another refusal", () => {
  const given = { ...workload(), contextPlace: { source: "/state/contexts/primary/main", target: "/berth/context" } };
  for (const said of [
    // Docker without that directory, as with a daemon that sees other files.
    'invalid mount config for type "bind": bind source path does not exist: /state/contexts/primary/main',
    // A user's Podman, to which the state directory is closed.
    "crun: cannot stat `/state/contexts/primary/main`: Permission denied: OCI permission denied",
    // runc, of the path inside.
    'error mounting "/x" to rootfs at "/berth/context": mkdirat /var/lib/docker/rootfs/berth: read-only file system',
  ]) {
    const error = new DaemonRefusal(500, said);
    const message = `its container cannot have it: ${said}`;
    assert.throws(() => refuseContextPlace(error, given), { name: "NoContextPlace", message });
    assert.doesNotThrow(() => refuseContextPlace(error, workload()));
  }
  for (const error of [new DaemonRefusal(500, "bind source path does not exist: /models"), new Error("/state")])
    assert.doesNotThrow(() => refuseContextPlace(error, given));
});

it("a pull that failed has its reason, and is tried again unless a person must act", () => {
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
    const failure = pullFailure("x:1", new Error(said));
    assert.deepEqual([failure.reason, failure.isTerminal], [reason, isTerminal], said);
    assert.match(failure.message, /^the image x:1 (?!.*HTTP code)/);
  }
});

describe("the progress of a pull", () => {
  const told = (lines: readonly object[]): PullProgress => {
    const progress = new PullProgress(0);
    for (const line of lines) progress.take(JSON.stringify({ id: "b", ...line }));
    return progress;
  };
  const downloading = (current: number, total: number): object => ({
    status: "Downloading",
    progressDetail: { current, total },
  });
  const fetching = { status: "Pulling fs layer" };
  const retrying = { status: "Retrying in 5 seconds", progressDetail: {} };
  const begun = [fetching, downloading(400, 1000), retrying];

  it("is bytes over all layers, and has a total once each has begun", () => {
    const progress = told([
      { status: "Pulling from library/x", id: "1" },
      { status: "Already exists", id: "a" },
      fetching,
      { ...fetching, id: "c" },
      downloading(40, 100),
    ]);
    assert.deepEqual(progress.read(2000), { bytesDone: 40, bytesPerSecond: 20 });
    for (const line of [
      { id: "c", ...downloading(10, 50) },
      { id: "b", status: "Download complete" },
      { id: "b", status: "Extracting", progressDetail: { current: 1, total: 300 } },
    ])
      progress.take(JSON.stringify(line));
    assert.deepEqual(progress.read(1000), { bytesDone: 110, bytesTotal: 150, bytesPerSecond: 110 });
    progress.take("no JSON");
    assert.equal(progress.error, undefined);
    progress.take(JSON.stringify({ error: "boom", errorDetail: { message: "boom" } }));
    assert.equal(progress.error, "boom");
  });

  it("is kept where the pull breaks off, though Docker counts the layer as whole when Docker closes the connection", () => {
    const letGo = downloading(1000, 1000);
    for (const lines of [begun, [fetching, downloading(400, 1000), letGo, retrying, retrying]]) {
      const progress = told(lines);
      assert.equal(progress.isBroken, true);
      assert.deepEqual(progress.read(1000), { bytesDone: 400, bytesTotal: 1000, bytesPerSecond: 400 });
      assert.equal(told([...lines, downloading(50, 600)]).read().bytesDone, 450);
      assert.equal(told([...lines, downloading(50, 600), downloading(600, 600), retrying]).read().bytesDone, 450);
    }
    assert.equal(told([fetching, letGo, retrying]).read().bytesDone, 0, "a break before a word of what has come");
  });

  it("continues its count where Docker reports only the rest, however often, and from zero where the layer begins anew", () => {
    const goesOn = [...begun, downloading(50, 600)];
    assert.equal(told(goesOn).isBroken, false);
    assert.deepEqual(told(goesOn).read(1000), { bytesDone: 450, bytesTotal: 1000, bytesPerSecond: 450 });
    assert.equal(told([...goesOn, downloading(10, 100)]).read().bytesDone, 910);
    assert.equal(told([...goesOn, downloading(10, 1000)]).read().bytesDone, 10);
    assert.equal(told([...goesOn, { status: "Download complete" }]).read().bytesDone, 1000);
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

  it("are cut wherever the chunks end, characters whole; those that are invalid are refused, not read for ever", () => {
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
    assert.throws(() => new FrameCutter().push(Buffer.from("HTTP/1.1 200 OK\r\n")), /log frame/);
  });

  it("have stamps that compare across zones and lengths", () => {
    assert.equal(nanoseconds("2026-01-01T00:00:00.5Z"), nanoseconds("2026-01-01T01:00:00.500000000+01:00"));
    assert.ok(nanoseconds("2026-01-01T00:00:00.000000001Z") > nanoseconds("2026-01-01T00:00:00Z"));
    assert.equal(nanoseconds("no stamp"), 0n);
  });
});

describe("credentials of registries", () => {
  async function site(config: object) {
    const directory = await tempDir();
    const file = join(directory.path, "config.json");
    await writeFile(file, JSON.stringify(config));
    const bin = join(directory.path, "bin");
    await mkdir(bin);
    return {
      ...directory,
      file,
      env: { DOCKER_CONFIG: directory.path, PATH: `${bin}:${process.env["PATH"] ?? ""}` },
      helper: async (name: string, script: string) =>
        await writeFile(join(bin, `docker-credential-${name}`), `#!/bin/sh\n${script}`, { mode: 0o755 }),
    };
  }

  it("are looked up by the reference's host", () => {
    for (const [image, registry] of [
      ["ghcr.io/a/b:1", "ghcr.io"],
      ["127.0.0.1:5000/b", "127.0.0.1:5000"],
      ["localhost/b", "localhost"],
      ["library/redis", "https://index.docker.io/v1/"],
      ["redis:7", "https://index.docker.io/v1/"],
    ] as const)
      assert.equal(registryOf(image), registry);
  });

  it("come from auths, identity tokens or a helper, and from nothing when there is nothing", async () => {
    const auth = Buffer.from("ada:pass:word").toString("base64");
    await using at = await site({
      auths: { "https://old.example/v1/": { auth }, "ghcr.io": { auth }, "quay.io": { identitytoken: "idt" } },
      credHelpers: { "r.example": "test" },
    });
    await at.helper("test", 'read -r host\necho "{\\"Username\\":\\"u\\",\\"Secret\\":\\"for $host\\"}"\n');
    for (const [serveraddress, expected] of [
      ["ghcr.io", { username: "ada", password: "pass:word" }],
      ["old.example", { username: "ada", password: "pass:word" }],
      ["quay.io", { identitytoken: "idt" }],
      ["r.example", { username: "u", password: "for r.example" }],
    ] as const)
      assert.deepEqual(await registryAuth(`${serveraddress}/a`, at.env), { ...expected, serveraddress });
    assert.equal(await registryAuth("example/a", at.env), undefined);
    await writeFile(at.file, "{ broken");
    assert.equal(await registryAuth("ghcr.io/a", at.env), undefined);
    assert.equal(await registryAuth("ghcr.io/a", { DOCKER_CONFIG: join(at.path, "none") }), undefined);
  });

  it("are not waited for longer than a helper's time limit, and what it has started ends with it", async () => {
    await using at = await site({ credsStore: "slow" });
    await at.helper("slow", "exec sleep 600\n");
    assert.equal(await registryAuth("ghcr.io/a", at.env, undefined, 50), undefined);
    const pidFile = join(at.path, "pid");
    await at.helper("slow", `sleep 600 &\necho $! >${pidFile}.new\nmv ${pidFile}.new ${pidFile}\n`);
    const closing = new AbortController();
    // It keeps the helper's output open.
    const asked = later(registryAuth("ghcr.io/a", at.env, closing.signal));
    await until("it has left a program", () => existsSync(pidFile));
    closing.abort();
    assert.equal(await asked, undefined);
    const pid = (await readFile(pidFile, "utf8")).trim();
    await until("that program has ended too", () => !existsSync(`/proc/${pid}`));
  });
});

describe("labels and names", () => {
  const given = { ...workload(), role: "rerank", ordinal: 3 } as const;

  it("are read back as they were given, by their own instance only", () => {
    const labels = labelsFor(given, "one");
    const { slot, role, ordinal, hash, port } = given;
    assert.deepEqual(labelIn(labels, "one"), { instance: "one", slot, role, ordinal, hash, port });
    assert.equal(labelIn(labels, "another"), undefined);
    assert.equal(labelIn({ ...labels, "dev.berth.slot": "../x" }, "one"), undefined);
    assert.equal(labelIn({ ...labels, "dev.berth.ordinal": "" }, "one"), undefined);
    assert.equal(labelIn(undefined, "one"), undefined);
  });

  it("name the variable that holds a bearer, never the bearer", () => {
    const withBearer = { ...given, bearer: { env: "LLAMA_API_KEY" } };
    assert.equal(labelIn(labelsFor(withBearer, "one", true), "one")?.bearer, "LLAMA_API_KEY");
    assert.equal(labelIn(labelsFor(withBearer, "one", false), "one")?.bearer, undefined);
  });

  it("never give two processes the same name", () => {
    const names = (["main", "rerank"] as const).flatMap((role) =>
      [0, 1].flatMap((ordinal) =>
        ["a", "a-rerank", "a-1"].map((slot) => nameFor({ slot, role, ordinal }, "0f8e-1234567890")),
      ),
    );
    assert.equal(new Set(names).size, 12);
    assert.equal(names[0], "berth-1234567890-a");
  });
});

it("the daemon's socket is DOCKER_HOST's, and of this machine", () => {
  for (const [host, path] of [
    [undefined, "/var/run/docker.sock"],
    ["unix:///run/podman/podman.sock", "/run/podman/podman.sock"],
    ["", "/var/run/docker.sock"],
    ["unix://", "/var/run/docker.sock"],
    ["tcp://10.0.0.1:2375", undefined],
    ["garbage", undefined],
  ] as const)
    assert.equal(socketPath(host), path, host);
});
