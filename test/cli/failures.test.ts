import assert from "node:assert/strict";
import { createServer } from "node:net";
import { describe, it } from "node:test";
import { apiDouble, failure, type Answer } from "../support/api-double.ts";
import { runBerth } from "../support/command.ts";
import { freePort } from "../support/free-port.ts";
import { listen } from "../support/listen.ts";

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

  it("asks on SVC_PORT where no address is given", async () => {
    const port = await freePort();
    const { stderr } = await runBerth(["slot", "list"], { SVC_PORT: String(port) });
    assert.match(stderr, new RegExp(`nothing answers at http://127\\.0\\.0\\.1:${port}\n`));
  });

  it("tells plain HTTP from TLS, and what is neither", async () => {
    await using api = await apiDouble({});
    const https = api.url.replace("http:", "https:");
    const next = "is it a Berth? name another with --server or SVC_URL\n";
    assert.equal(
      (await runBerth(["--server", https, "status"])).stderr,
      `server.invalid: what answers at ${https} does not speak TLS\n${next}`,
    );
    const server = createServer((socket) => socket.end("220 mail ESMTP\r\n"));
    const port = await listen(server);
    try {
      const url = `http://127.0.0.1:${port}`;
      assert.equal(
        (await runBerth(["--server", url, "status"])).stderr,
        `server.invalid: what answers at ${url} does not speak HTTP\n${next}`,
      );
    } finally {
      server.close();
    }
  });

  it("refuses what is no address", async () => {
    assert.deepEqual(await runBerth(["--server", "localhost:8080", "status"]), {
      code: 1,
      stdout: "",
      stderr:
        "server.invalid: localhost:8080 is not the address of a service\n" +
        "it looks like http://127.0.0.1:8080; set it with --server or SVC_URL\n",
    });
  });

  const foreign: readonly (readonly [what: string, answer: Answer, message: (url: string) => string])[] = [
    [
      "an error page",
      refused(502, "<h1>Bad Gateway</h1>"),
      () => "the server answered 502, which is no error of Berth's",
    ],
    ["a page", refused(200, "<h1>Welcome</h1>"), (url) => `the answer of ${url} is not JSON`],
  ];
  for (const [what, answer, message] of foreign) {
    it(`doubts that ${what} comes from a Berth`, async () => {
      await using api = await apiDouble({ "/api/slots": answer });
      const { code, stderr } = await runBerth(["slot", "list"], { SVC_URL: api.url });
      assert.equal(
        stderr,
        `server.invalid: ${message(api.url)}\nis it a Berth? name another with --server or SVC_URL\n`,
      );
      assert.equal(code, 1);
    });
  }

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
  ]) {
    it(`exits with 2: berth ${args.join(" ")}`, async () => {
      const { code, stdout, stderr } = await runBerth(args);
      assert.equal(code, 2, stderr);
      assert.equal(stdout, "");
      assert.notEqual(stderr, "");
    });
  }

  it("says what is wrong and where help is", async () => {
    assert.deepEqual(await runBerth(["slot", "list", "--nope"]), {
      code: 2,
      stdout: "",
      stderr: "usage: unknown option '--nope'\nsee `berth slot list --help`\n",
    });
    assert.equal(
      (await runBerth(["slot", "shwo"])).stderr,
      "usage: unknown command 'shwo'\n(Did you mean show?)\nsee `berth slot --help`\n",
    );
  });

  for (const args of [["--help"], ["slot", "--help"], ["--version"]]) {
    it(`is no such case: berth ${args.join(" ")}`, async () => {
      const { code, stderr } = await runBerth(args);
      assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
    });
  }
});
