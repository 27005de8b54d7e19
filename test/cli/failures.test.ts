import assert from "node:assert/strict";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { errorTable } from "../../src/api/errors.ts";
import { Client, CommandError } from "../../src/cli/client.ts";
import { rejectionOf } from "../support/rejection.ts";
import { nextStep } from "../../src/cli/next-steps.ts";
import { apiDouble, failure, stream, type Answer } from "../support/api-double.ts";
import { runBerth } from "../support/command.ts";
import { freePort } from "../support/free-port.ts";
import { tempDir } from "../support/temp-dir.ts";
import { listen } from "../support/listen.ts";
import { until } from "../support/until.ts";
import { unknownName } from "../support/unknown-name.ts";

const program = join(fileURLToPath(new URL("../..", import.meta.url)), "bin/berth");

const refused =
  (status: number, body: string): Answer =>
  (response) => {
    response.statusCode = status;
    response.end(body);
  };

describe("a command that cannot be done", () => {
  it("names the address where nothing answers, with what to do", async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    assert.deepEqual(await runBerth(["slot", "list"], { SVC_URL: url }), {
      code: 1,
      stdout: "",
      stderr: `unreachable: nothing answers at ${url}\nstart it with \`berth up\`, or name another with --server\n`,
    });
  });

  it("gives up an address that accepts connections and never answers", async () => {
    const sockets = new Set<Socket>();
    const server = createServer((socket) => void sockets.add(socket));
    const url = `http://127.0.0.1:${await listen(server)}`;
    try {
      const client = new Client({ server: url, token: undefined, idleTimeoutMs: 50 });
      const { code, message } = await rejectionOf(client.list("/api/slots"), CommandError);
      assert.deepEqual(
        [code, message],
        ["unreachable", `${url} accepts connections, and answers nothing within 0.1 s`],
      );
    } finally {
      for (const socket of sockets) socket.destroy();
      server.close();
    }
  });

  it("waits for a late answer as long as the service answers /livez", async () => {
    await using api = await apiDouble({
      "/api/slots": (response) =>
        void until("it was asked thrice whether it lives", () => api.asked.length > 3).then(() =>
          response.end('{"data":[]}'),
        ),
      "/livez": {},
    });
    // Each /livez must be answered within this time, also on a busy machine.
    const client = new Client({ server: api.url, token: undefined, idleTimeoutMs: 1000 });
    assert.deepEqual(await client.list("/api/slots"), []);
    assert.deepEqual(api.asked.slice(0, 4), ["GET /api/slots", "GET /livez", "GET /livez", "GET /livez"]);
  });

  it("asks on SVC_PORT where no address is given", async () => {
    const port = await freePort();
    const { stderr } = await runBerth(["slot", "list"], { SVC_PORT: String(port) });
    assert.match(stderr, new RegExp(`nothing answers at http://127\\.0\\.0\\.1:${port}\n`));
  });

  it("distinguishes plain HTTP, TLS and anything else", async () => {
    await using api = await apiDouble({});
    const https = api.url.replace("http:", "https:");
    const next = "is it a Berth? name another with --server or SVC_URL\n";
    assert.equal(
      (await runBerth(["--server", https, "status"])).stderr,
      `server.invalid: the program at ${https} does not speak TLS\n${next}`,
    );
    const server = createServer((socket) => socket.end("220 mail ESMTP\r\n"));
    const port = await listen(server);
    try {
      const url = `http://127.0.0.1:${port}`;
      assert.equal(
        (await runBerth(["--server", url, "status"])).stderr,
        `server.invalid: the program at ${url} does not speak HTTP\n${next}`,
      );
    } finally {
      server.close();
    }
  });

  it("refuses an invalid address", async () => {
    assert.deepEqual(await runBerth(["--server", "localhost:8080", "status"]), {
      code: 1,
      stdout: "",
      stderr:
        "server.invalid: localhost:8080 is not the address of a service\n" +
        "it looks like http://127.0.0.1:8080; set it with --server or SVC_URL\n",
    });
    const client = new Client({ server: "http://ada:hush@bad host/", token: undefined });
    const { message } = await rejectionOf(client.text("/api/status"), CommandError);
    assert.equal(message, "http://…@bad host/ is not the address of a service");
  });

  const foreign: readonly (readonly [what: string, answer: Answer, message: (url: string) => string])[] = [
    [
      "an error page",
      refused(502, "<h1>Bad Gateway</h1>"),
      () => "the server answered 502, which is no error of Berth's",
    ],
    ["a page", refused(200, "<h1>Welcome</h1>"), (url) => `the answer of ${url} is not JSON`],
    ["another API", refused(200, "{}"), (url) => `${url} answered /api/slots with something else than a list`],
    ["half an answer", refused(200, '{"data":'), (url) => `the answer of ${url} is not JSON`],
    ["a redirect", refused(302, ""), () => "the server answered 302, which is no error of Berth's"],
  ];
  for (const [what, answer, message] of foreign) {
    it(`says that ${what} may not come from a Berth`, async () => {
      await using api = await apiDouble({ "/api/slots": answer });
      const { code, stderr } = await runBerth(["slot", "list"], { SVC_URL: api.url });
      assert.equal(
        stderr,
        `server.invalid: ${message(api.url)}\nis it a Berth? name another with --server or SVC_URL\n`,
      );
      assert.equal(code, 1);
    });
  }

  it("refuses JSON of another form as the answer", async () => {
    const other = refused(200, '{"hello":"world"}');
    const paths = ["/api/status", "/api/health/system", "/api/slots/a", "/api/slots/a/plan", "/api/models/m"];
    await using api = await apiDouble({
      ...Object.fromEntries(paths.map((path) => [path, other])),
      "/api/slots": { object: "list", data: [] },
      "/api/slots/a/restart?wait=ready&timeout=180": other,
      "/api/hardware/probe?wait=settled&timeout=30": other,
    });
    for (const [args, what] of [
      [["status"], "answered /api/status with something else than was asked"],
      [["slot", "show", "a"], "answered /api/slots/a with something else than was asked"],
      [["slot", "plan", "a"], "answered /api/slots/a/plan with something else than was asked"],
      [["model", "show", "m"], "answered /api/models/m with something else than was asked"],
      [["slot", "restart", "a", "--wait"], "answered with something else than a slot"],
      [["probe"], "answered with something else than hardware"],
    ] as const) {
      const { code, stdout, stderr } = await runBerth(args, { SVC_URL: api.url });
      assert.deepEqual([code, stdout], [1, ""], args.join(" "));
      const [last, next] = stderr.trimEnd().split("\n").slice(-2);
      assert.equal(last, `server.invalid: ${api.url} ${what}`);
      assert.equal(next, "is it a Berth? name another with --server or SVC_URL");
    }
  });

  it("refuses an answer that is not JSON on every route, and within a stream of events", async () => {
    await using api = await apiDouble({
      "/api/auth/tokens": refused(200, "<h1>Welcome</h1>"),
      "/api/slots/a/logs?tail=200&follow=1": stream("<h1>Welcome</h1>"),
      "/v1/chat/completions": stream("<h1>Welcome</h1>"),
    });
    for (const args of [
      ["token", "create", "--label", "me", "--scope", "all"],
      ["slot", "logs", "a", "-f"],
      ["chat", "a", "hello"],
    ]) {
      assert.deepEqual(await runBerth(args, { SVC_URL: api.url }), {
        code: 1,
        stdout: "",
        stderr: `server.invalid: the answer of ${api.url} is not JSON\nis it a Berth? name another with --server or SVC_URL\n`,
      });
    }
  });

  it("reports a broken connection", async () => {
    await using api = await apiDouble({
      "/api/slots": (response) => {
        response.writeHead(200, { "content-length": "1000" });
        response.write("{", () => response.destroy());
      },
    });
    assert.equal(
      (await runBerth(["slot", "list"], { SVC_URL: api.url })).stderr,
      `unreachable: ${api.url} broke the connection before its answer was whole\n` +
        "try again: it may have been stopped or restarted\n",
    );
  });

  it("refuses an address that says too much, and does not repeat a password", async () => {
    for (const [server, stderr] of [
      [
        "http://ada:secret@127.0.0.1:1",
        "server.invalid: the address of http://127.0.0.1:1 holds a name or a password\n" +
          "leave them out; `berth login` keeps a token for it\n",
      ],
      [
        "http://127.0.0.1:1/berth",
        "server.invalid: http://127.0.0.1:1/berth is an address within a service\nleave it at http://127.0.0.1:1\n",
      ],
    ] as const)
      assert.deepEqual(await runBerth(["--server", server, "status"]), { code: 1, stdout: "", stderr });
  });

  it("reports a host name that cannot be resolved", async () => {
    const server = `http://${unknownName}`;
    assert.equal(
      (await runBerth(["--server", server, "status"])).stderr,
      `unreachable: no machine is known by the name in ${server}\n` +
        "check --server and SVC_URL; a name that ends in .local needs mDNS, or a line in /etc/hosts\n",
    );
  });

  it("sends no token that no token can be, and does not repeat it", async () => {
    await using api = await apiDouble({ "/api/slots": { object: "list", data: [] } });
    for (const token of ["svc_a.b c", "svc_a.b\nx", "ключ"]) {
      assert.deepEqual(await runBerth(["slot", "list"], { SVC_URL: api.url, SVC_TOKEN: token }), {
        code: 1,
        stdout: "",
        stderr:
          "auth.invalid: the token in SVC_TOKEN holds characters that no token has: blanks, line ends or letters beyond ASCII\n" +
          "one looks like svc_<id>.<secret>\n",
      });
    }
    assert.deepEqual(api.asked, []);
    await runBerth(["slot", "list"], { SVC_URL: api.url, SVC_TOKEN: " svc_a.b\n" });
    assert.deepEqual(api.authorizations, ["Bearer svc_a.b"], "what a file ends in is no part of it");
  });

  it("has a next step for every error of the service", () => {
    for (const code of Object.keys(errorTable))
      assert.match(nextStep(code, { slot: "coder", request: "r-1" }) ?? "", /^[a-z`][^\n]+$/, code);
    assert.equal(nextStep("slot.failed", { slot: "coder", request: "" }), "see `berth slot show coder` for the cause");
    const unloaded = { slot: "coder", reason: "Unloaded", request: "" };
    assert.equal(nextStep("slot.not_ready", unloaded), "load it with `berth slot load coder`");
    assert.equal(
      nextStep("slot.disabled", { slot: "stt", reason: "NotConfigured", request: "" }),
      "configure it: `berth slot create stt --model REF`, or a manifest slots/stt.toml",
    );
    assert.equal(nextStep("dispatch.invalid_request", { path: "files", request: "" }), "add --files");
    assert.equal(nextStep("constructor", { slot: undefined, request: "" }), undefined);
  });

  it("names the request id under which the log has the cause", async () => {
    await using api = await apiDouble({
      "/api/slots": (response) => {
        response.writeHead(500, { "x-request-id": "ab12-3" });
        response.end(JSON.stringify(failure("system.internal", "Something failed inside the service")));
      },
    });
    assert.equal(
      (await runBerth(["slot", "list"], { SVC_URL: api.url })).stderr,
      "system.internal: Something failed inside the service\n" +
        "the log of the service has the cause, under the request id ab12-3\n",
    );
  });

  it("fails in two lines where its output is lost, or a file cannot be had", async () => {
    const lost = await runBerth(["-c", `'${program}' completion bash >/dev/full`], {}, "/bin/sh");
    assert.deepEqual(lost, {
      code: 1,
      stdout: "",
      stderr: "output.failed: ENOSPC: no space left on device, write\nmake room where the output goes\n",
    });
    await using dir = await tempDir();
    const env = {
      SVC_STATE_DIR: dir.path,
      SVC_CONFIG_DIR: dir.path,
      SVC_ADMIN_USER: "ada",
      SVC_ADMIN_PASSWORD: "x".repeat(9),
    };
    const { code, stderr } = await runBerth(["proxy", "render", "--file", "/dev/null/Caddyfile"], env);
    assert.equal(code, 1);
    assert.match(stderr, /\nENOTDIR: [^\n]+\ncheck the name; a part of it is no directory\n$/);
  });

  it("prints code, message and the next step of an error", async () => {
    const body = JSON.stringify(failure("auth.required", "this route needs a token"));
    await using api = await apiDouble({ "/api/slots": refused(401, body) });
    assert.deepEqual(await runBerth(["slot", "list"], { SVC_URL: api.url }), {
      code: 1,
      stdout: "",
      stderr: "auth.required: this route needs a token\nrun `berth login`, or give a token in SVC_TOKEN\n",
    });
  });
});

describe("a command that is used wrongly", () => {
  for (const args of [
    ["nope"],
    ["slot", "nope"],
    ["slot", "show"],
    ["slot", "list", "-o", "xml"],
    ["slot", "logs", "primary", "--tail", "many"],
    ["slot", "list", "--nope"],
    ["slot"],
    [],
    ["slot", "show", ""],
    ["slot", "delete", "", "--yes"],
    ["model", "rm", ""],
    ["help", "slot", "lst"],
    ["proxy", "render", "--http-port", "0"],
    ["proxy", "render", "--https-port", "65536"],
    ["proxy", "render", "--http-port", "443"],
    // An empty variable in a script: the present directory is none that was named.
    ["config", "migrate", ""],
    ["config", "validate", ""],
  ]) {
    it(`exits with 2: berth ${args.join(" ")}`, async () => {
      const { code, stdout, stderr } = await runBerth(args);
      assert.equal(code, 2, stderr);
      assert.equal(stdout, "");
      assert.notEqual(stderr, "");
    });
  }

  it("names the mistake and where help is", async () => {
    assert.deepEqual(await runBerth(["slot", "list", "--nope"]), {
      code: 2,
      stdout: "",
      stderr: "usage: unknown option '--nope'\nsee `berth slot list --help`\n",
    });
    assert.equal(
      (await runBerth(["slot", "show", ""])).stderr,
      "usage: argument 'slot' is empty\nsee `berth slot show --help`\n",
    );
    assert.equal(
      (await runBerth(["help", "slot", "shwo"])).stderr,
      "usage: unknown command 'slot shwo'\nsee `berth --help`\n",
    );
    assert.equal(
      (await runBerth(["slot", "shwo"])).stderr,
      "usage: unknown command 'shwo'; did you mean show?\nsee `berth slot --help`\n",
    );
  });

  it("suggests its own command for the names that other tools use", async () => {
    for (const [args, stderr] of [
      [["ps"], "usage: unknown command 'ps'; here it is `berth slot list`\n"],
      [["pull", "qwen3"], "usage: unknown command 'qwen3'; a model is fetched by `berth model pull qwen3`\n"],
      [["run", "primary", "hi"], "usage: unknown command 'run'; here it is `berth chat SLOT`\n"],
      [["slot", "list", "--json"], "usage: unknown option '--json'; write -o json\n"],
    ] as const) {
      const ended = await runBerth(args);
      assert.equal(ended.code, 2);
      assert.ok(ended.stderr.startsWith(stderr), ended.stderr);
    }
  });

  it("shows help as deep as commands go, with examples", async () => {
    for (const words of [[], ["slot"], ["slot", "swap"], ["completion"]]) {
      const helped = await runBerth(["help", ...words]);
      assert.deepEqual(helped, await runBerth([...words, "--help"]), words.join(" "));
      if (words.join(" ") !== "slot") assert.match(helped.stdout, /\nExamples:\n {2}\S/);
    }
  });

  for (const args of [["--help"], ["slot", "--help"], ["--version"]]) {
    it(`accepts: berth ${args.join(" ")}`, async () => {
      const { code, stderr } = await runBerth(args);
      assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
    });
  }
});
