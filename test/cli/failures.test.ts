import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { describe, it } from "node:test";
import { errorTable } from "../../src/api/errors.ts";
import { Client, CommandError } from "../../src/cli/client.ts";
import { nextStep } from "../../src/cli/next-steps.ts";
import { exitCodeOf } from "../../src/program/entry.ts";
import { apiDouble, stream, type Answer } from "../support/api-double.ts";
import { runBerth } from "../support/command.ts";
import { freePort } from "../support/free-port.ts";
import { listen } from "../support/listen.ts";
import { rejectionOf } from "../support/rejection.ts";
import { unknownName } from "../support/unknown-name.ts";
import { until } from "../support/until.ts";
import { answered, failed, listOf, refused, told } from "./fixture.ts";

const page = answered(200, "<h1>Welcome</h1>");
const other = answered(200, '{"hello":"world"}');
const isItBerth = "is it a Berth? name another with --server or SVC_URL";

describe("another program than Berth is named as such", () => {
  const notJson = "the answer of URL is not JSON";
  const without = (route: string, field: string): string => `URL answered ${route} without the field ${field}`;
  const chat = "/v1/chat/completions";
  const restart = "/api/slots/a/restart?wait=ready&timeout=180";
  const probe = "/api/hardware/probe?wait=settled&timeout=30";
  const rows: readonly (readonly [line: string, path: string, answer: Answer, message: string])[] = [
    ["slot list", "/api/slots", answered(502, "<h1>"), "the server answered 502, which is no error of Berth's"],
    ["slot list", "/api/slots", answered(302, ""), "the server answered 302, which is no error of Berth's"],
    ["slot list", "/api/slots", page, notJson],
    ["slot list", "/api/slots", answered(200, '{"data":'), notJson],
    ["slot list", "/api/slots", other, "URL answered GET /api/slots without a list in data"],
    ["slot list", "/api/slots", answered(200, "[]"), "URL answered GET /api/slots with something else than an object"],
    ["status", "/api/status", other, without("GET /api/status", "version")],
    ["slot show a", "/api/slots/a", other, without("GET /api/slots/a", "name")],
    ["slot plan a", "/api/slots/a/plan", other, without("GET /api/slots/a/plan", "text")],
    ["model show m", "/api/models/m", other, without("GET /api/models/m", "id")],
    ["slot restart a --wait", restart, other, without(`POST ${restart}`, "state")],
    ["probe", probe, other, without(`POST ${probe}`, "cpu")],
    ["token create --label me --scope all", "/api/auth/tokens", page, notJson],
    ["token revoke ab12", "/api/auth/tokens/ab12", page, "URL answered DELETE /api/auth/tokens/ab12 with a body"],
    ["lend --end", "/api/groups/gpu/lend", page, notJson],
    ["slot logs a -f", "/api/slots/a/logs?tail=200&follow=1", stream("<h1>"), notJson],
    ["chat a hello", chat, stream("<h1>"), notJson],
  ];
  for (const [index, [line, path, answer, message]] of rows.entries())
    it(`${index + 1}: ${line}: ${message}`, async () => {
      const groups = listOf({ name: "gpu" });
      const answers = { "/api/slots": listOf(), "/api/groups": groups, "/api/health/system": {}, [path]: answer };
      const { code, stdout, stderr } = await told(answers, line);
      assert.deepEqual([code, stdout], [1, ""]);
      assert.deepEqual(stderr.trimEnd().split("\n").slice(-2), [`server.invalid: ${message}`, isItBerth]);
    });

  it("also by its protocol", async () => {
    await using api = await apiDouble({});
    const mail = createServer((socket) => socket.end("220 mail ESMTP\r\n"));
    const rows = [
      [api.url.replace("http:", "https:"), "TLS"],
      [`http://127.0.0.1:${await listen(mail)}`, "HTTP"],
    ] as const;
    try {
      for (const [server, protocol] of rows) {
        const { stderr } = await runBerth(["--server", server, "status"]);
        assert.match(stderr, new RegExp(`^server\\.invalid: the program at ${server} does not speak ${protocol}\n`));
      }
    } finally {
      mail.close();
    }
  });
});

describe("a command that cannot be done", () => {
  const unreachable = "unreachable: nothing answers at URL\nstart it with `berth up`, or name another with --server\n";
  const cut: Answer = (response) => {
    response.writeHead(200, { "content-length": "1000" });
    response.write("{", () => response.destroy());
  };
  const internal: Answer = (response) => {
    const error = { code: "system.internal", message: "Something failed inside the service" };
    response.writeHead(500, { "x-request-id": "ab12-3" }).end(JSON.stringify({ error }));
  };
  const older = "the service may be older than this command: compare `berth status` and `berth --version`";
  for (const [what, answer, said, next] of [
    [
      "an error",
      refused(401, "auth.required", "this route needs a token"),
      "auth.required: this route needs a token",
      "run `berth login`, or give a token in SVC_TOKEN",
    ],
    [
      "a failure of the service",
      internal,
      "system.internal: Something failed inside the service",
      "the log of the service has the cause, under the request id ab12-3",
    ],
    ["a missing route", refused(404, "system.not_found", "nothing"), "system.not_found: nothing", older],
    [
      "a broken connection",
      cut,
      "unreachable: URL broke the connection before its answer was whole",
      "try again: it may have been stopped or restarted",
    ],
  ] as const)
    it(`prints the code, the message and the next step of ${what}`, async () => {
      assert.deepEqual((await told({ "/api/slots": answer }, "slot list")).ended, failed(`${said}\n${next}\n`));
    });

  it("names the address where nothing answers, with what to do", async () => {
    const port = String(await freePort());
    const url = `http://127.0.0.1:${port}`;
    for (const env of [{ SVC_URL: url }, { SVC_PORT: port }])
      assert.deepEqual(await runBerth(["slot", "list"], env), failed(unreachable.replace("URL", url)));
  });

  const form = "it looks like http://127.0.0.1:8080; set it with --server or SVC_URL";
  const login = "leave them out; `berth login` keeps a token for it";
  const name = "check --server and SVC_URL; a name that ends in .local needs mDNS, or a line in /etc/hosts";
  const here = "http://127.0.0.1:1";
  for (const [server, said, next] of [
    ["localhost:8080", "server.invalid: localhost:8080 is not the address of a service", form],
    ["http://ada:secret@bad host/", "server.invalid: http://…@bad host/ is not the address of a service", form],
    ["http://ada:secret@127.0.0.1:1", `server.invalid: the address of ${here} holds a name or a password`, login],
    [`${here}/berth`, `server.invalid: ${here}/berth is an address within a service`, `leave it at ${here}`],
    [`http://${unknownName}`, `unreachable: no machine is known by the name in http://${unknownName}`, name],
  ] as const)
    it(`says what is wrong with the address ${server}, and repeats no password`, async () => {
      assert.deepEqual(await runBerth(["--server", server, "status"]), failed(`${said}\n${next}\n`));
    });

  it("gives up an address that accepts connections and never answers", async () => {
    const sockets = new Set<Socket>();
    const server = createServer((socket) => void sockets.add(socket));
    const url = `http://127.0.0.1:${await listen(server)}`;
    try {
      const client = new Client({ server: url, token: undefined, idleTimeoutMs: 50 });
      const { code, message } = await rejectionOf(client.list("GET /api/slots"), CommandError);
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
    // Each /livez must be answered within this time, which a busy machine may miss: another try shows that it waits.
    await until("the late answer is waited for", async () => {
      await using api = await apiDouble({
        "/api/slots": (response) =>
          void until("it was asked twice whether it lives", () => api.asked.length > 2 || response.destroyed).then(() =>
            response.end('{"data":[]}'),
          ),
        "/livez": {},
      });
      const client = new Client({ server: api.url, token: undefined, idleTimeoutMs: 1000 });
      assert.deepEqual(await client.list("GET /api/slots"), []);
      assert.deepEqual(api.asked.slice(0, 3), ["GET /api/slots", "GET /livez", "GET /livez"]);
      return true;
    });
  });

  it("sends no token that no token can be, and does not repeat it", async () => {
    await using api = await apiDouble({ "/api/slots": listOf() });
    const list = (token: string) => runBerth(["slot", "list"], { SVC_URL: api.url, SVC_TOKEN: token });
    const why = "the token in SVC_TOKEN holds characters that no token has: blanks, line ends or letters beyond ASCII";
    for (const token of ["svc_a.b c", "svc_a.b\nx", "ключ"])
      assert.deepEqual(await list(token), failed(`auth.invalid: ${why}\none looks like svc_<id>.<secret>\n`));
    assert.deepEqual(api.asked, []);
    await list(" svc_a.b\n");
    assert.deepEqual(api.authorizations, ["Bearer svc_a.b"], "what a file ends in is no part of it");
  });

  it("has a next step for every error of the service", () => {
    for (const code of Object.keys(errorTable))
      assert.match(nextStep(code, { slot: "coder", request: "r-1" }) ?? "", /^[a-z`][^\n]+$/, code);
    for (const [code, about, step] of [
      ["slot.failed", { slot: "coder" }, "see `berth slot show coder` for the cause"],
      ["slot.not_ready", { slot: "coder", reason: "Unloaded" }, "load it with `berth slot load coder`"],
      [
        "slot.disabled",
        { slot: "stt", reason: "NotConfigured" },
        "configure it: `berth slot create stt --model REF`, or a manifest slots/stt.toml",
      ],
      ["dispatch.invalid_request", { path: "files" }, "add --files"],
      ["constructor", {}, undefined],
    ] as const)
      assert.equal(nextStep(code, { slot: undefined, request: "", ...about }), step);
  });

  it("explains an error of the system, and no defect", async () => {
    let said = "";
    const code = (run: () => Promise<unknown>): Promise<number> =>
      exitCodeOf(
        () => run().then(() => 0),
        (text) => (said += text),
      );
    assert.equal(await code(() => readFile("/dev/null/Caddyfile")), 1);
    assert.match(said, /^ENOTDIR: [^\n]+\ncheck the name; a part of it is no directory\n$/);
    await assert.rejects(
      code(() => Promise.reject(new TypeError("a defect"))),
      /a defect/,
    );
  });
});

describe("a command that is used wrongly", () => {
  const rows: readonly (readonly [line: string, stderr: RegExp])[] = [
    ["zzzzzz", /^usage: unknown command 'zzzzzz'\nsee `berth --help`\n$/],
    ["slot nope", /^usage: unknown command 'nope'\nsee `berth slot --help`\n$/],
    ["slot shwo", /^usage: unknown command 'shwo'; did you mean show\?\nsee `berth slot --help`\n$/],
    ["slot show", /^usage: missing required argument 'slot'\n/],
    ["slot list -o xml", /^usage: option '-o, --output <format>' argument 'xml' is invalid/],
    ["slot logs primary --tail many", /It must be a whole number\./],
    ["slot list --nope", /^usage: unknown option '--nope'\nsee `berth slot list --help`\n$/],
    ["slot", /^Usage: berth slot /],
    ["help slot lst", /^usage: unknown command 'slot lst'\nsee `berth --help`\n$/],
    ["proxy render --http-port 0", /It must be a port, 1 to 65535/],
    ["proxy render --https-port 65536", /It must be a port, 1 to 65535/],
    ["proxy render --http-port 443", /--http-port/],
    // The names that other tools use.
    ["ps", /^usage: unknown command 'ps'; here it is `berth slot list`\n/],
    ["pull qwen3", /^usage: unknown command 'qwen3'; a model is fetched by `berth model pull qwen3`\n/],
    ["run primary hi", /^usage: unknown command 'run'; here it is `berth chat SLOT`\n/],
    ["slot list --json", /^usage: unknown option '--json'; write -o json\n/],
    // A script's empty variable names neither a slot nor the present directory.
    ["slot show ", /^usage: argument 'slot' is empty\nsee `berth slot show --help`\n$/],
    ["slot delete  --yes", /^usage: argument 'slot' is empty\n/],
    ["model rm ", /^usage: argument 'ref' is empty\n/],
    ["config migrate ", /^usage: argument 'directory' is empty\n/],
    ["config validate ", /^usage: argument 'directory' is empty\n/],
  ];
  for (const [line, said] of rows)
    it(`exits with 2 and says why: berth ${line}`, async () => {
      const { code, stdout, stderr } = await runBerth(line.split(" "));
      assert.deepEqual([code, stdout], [2, ""]);
      assert.match(stderr, said);
    });

  it("gets the help of the program where it names no command", async () => {
    const { code, stdout, stderr } = await runBerth([]);
    assert.deepEqual([code, stdout], [2, ""]);
    assert.match(stderr, /^Usage: berth /);
  });
});

it("help is as deep as commands go, with examples", async () => {
  for (const words of [[], ["slot"], ["slot", "swap"], ["completion"]]) {
    const helped = await runBerth(["help", ...words]);
    assert.deepEqual([helped.code, helped.stderr], [0, ""]);
    assert.deepEqual(helped, await runBerth([...words, "--help"]), words.join(" "));
    if (words.join(" ") !== "slot") assert.match(helped.stdout, /\nExamples:\n {2}\S/);
  }
});
