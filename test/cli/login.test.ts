import assert from "node:assert/strict";
import { chmod, mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { PassThrough } from "node:stream";
import { describe, it } from "node:test";
import { readSecret } from "../../src/cli/login.ts";
import { apiDouble } from "../support/api-double.ts";
import { runBerth } from "../support/command.ts";
import { tempDir } from "../support/temp-dir.ts";
import { done, failed, listOf, refused, type Answers } from "./fixture.ts";

const token = "svc_abcdefgh.0123456789";
const all: Answers = {
  "/api/auth/status": { enabled: true, modes: ["token"], proxy_trusted: false },
  "/api/auth/me": { identity: "me", scope: "all", source: "token" },
  "/api/slots": listOf(),
};

/** A person with a home, and a service. */
async function site(answers: Answers = all) {
  const stack = new AsyncDisposableStack();
  const { path: home } = stack.use(await tempDir());
  const api = stack.use(await apiDouble(answers));
  return {
    home,
    file: join(home, ".local/share/berth/credentials.json"),
    api,
    /** `berth LINE` of that person, to the service unless `env` says otherwise. */
    berth: (line: string, typed?: string, env?: NodeJS.ProcessEnv) =>
      runBerth(line.split(" "), { HOME: home, SVC_URL: api.url, ...env }, typed),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

const kept = async (file: string): Promise<unknown> => JSON.parse(await readFile(file, "utf8"));
const recordOf = (url: string) => ({ schema: 1, servers: { [url]: token } });

async function put(file: string, url: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, JSON.stringify(recordOf(url)), { mode: 0o600 });
}

describe("berth login", () => {
  it("tries a token, stores it readable for its owner alone, and uses it for that server only", async () => {
    await using here = await site();
    await using other = await apiDouble(all);
    const { api, file } = here;
    const said = `logged in to ${api.url} as me (all); the token is kept in ${file}\n`;
    assert.deepEqual(await here.berth("login", `${token}\n`), done(said));
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    assert.deepEqual(await kept(file), recordOf(api.url));
    await here.berth("slot list", "", { SVC_URL: `${api.url}/` });
    await here.berth("slot list", "", { SVC_URL: other.url });
    await here.berth("slot list", "", { SVC_TOKEN: "svc_other.1" });
    const bearer = `Bearer ${token}`;
    assert.deepEqual(api.authorizations, [undefined, bearer, bearer, "Bearer svc_other.1"]);
    assert.deepEqual(other.authorizations, [undefined]);

    const forgot = `forgot the token of ${api.url} in ${file}; it stays valid until \`berth token revoke\`\n`;
    assert.deepEqual(await here.berth("login --forget"), done(forgot));
    assert.deepEqual(await kept(file), { schema: 1, servers: {} });
  });

  for (const [what, typed, more, stderr] of [
    [
      "that the service refuses",
      token,
      { "/api/auth/me": refused(401, "auth.invalid", "the token is unknown") },
      "auth.invalid: the token is unknown\nrun `berth login`, or give a valid token in SVC_TOKEN\n",
    ],
    ["of another form", "hunter2", {}, "auth.invalid: that is no token; one looks like svc_<id>.<secret>\n"],
  ] as const)
    it(`stores no token ${what}`, async () => {
      await using here = await site({ ...all, ...more });
      const ended = await here.berth("login", typed);
      assert.deepEqual([ended.code, ended.stdout], [1, ""]);
      assert.ok(ended.stderr.startsWith(stderr), ended.stderr);
      await assert.rejects(stat(here.file), { code: "ENOENT" });
    });

  it("asks for nothing where authentication is off", async () => {
    await using here = await site({ "/api/auth/status": { enabled: false, modes: ["none"], proxy_trusted: false } });
    assert.deepEqual(await here.berth("login"), done(`${here.api.url} needs no token: authentication is off\n`));
  });

  for (const [route, field, path, answer] of [
    ["GET /api/auth/status", "proxy_trusted", "/api/auth/status", { enabled: false }],
    ["GET /api/auth/status", "proxy_trusted", "/api/auth/status", {}],
    ["GET /api/auth/me", "identity", "/api/auth/me", { hello: "world" }],
  ] as const)
    it(`keeps no token for another program, which answers ${path} ${JSON.stringify(answer)}`, async () => {
      await using here = await site({ ...all, [path]: answer });
      const said = `server.invalid: ${here.api.url} answered ${route} without the field ${field}\n`;
      const next = "is it a Berth? name another with --server or SVC_URL\n";
      assert.deepEqual(await here.berth("login", token), failed(`${said}${next}`));
      await assert.rejects(stat(here.file), { code: "ENOENT" });
    });

  it("does not use a file that others may read, or that is damaged", async () => {
    await using here = await site();
    const { file } = here;
    await put(file, here.api.url);
    await chmod(file, 0o640);
    const exposed = failed(`credentials.exposed: ${file} may be read by others\nchmod 600 ${file}\n`);
    assert.deepEqual(await here.berth("slot list"), exposed);
    await chmod(file, 0o600);
    await writeFile(file, "{");
    const { stderr } = await here.berth("slot list");
    assert.match(stderr, /^credentials\.invalid: .* does not read as JSON\nremove it, and run `berth login`\n$/);
  });

  it("reports a missing home directory", async () => {
    await using here = await site();
    const stderr = "credentials.nowhere: there is no HOME to keep a token in\ngive it in SVC_TOKEN instead\n";
    assert.deepEqual(await here.berth("login --forget", "", { HOME: undefined }), failed(stderr));
  });
});

describe("a token that is typed at a terminal", () => {
  const type = (text: string) => {
    const [input, output] = [Object.assign(new PassThrough(), { isTTY: true }), new PassThrough()];
    const typed = readSecret("Token: ", input, output);
    input.write(text);
    return { typed, output };
  };

  it("is not shown", async () => {
    const { typed, output } = type("svc_a.b\r\n");
    assert.equal(await typed, "svc_a.b");
    assert.equal(String(output.read()), "Token: \n");
  });

  for (const [name, key] of [
    ["Ctrl-C", "\u0003"],
    ["Ctrl-D", "\u0004"],
  ] as const)
    it(`${name} in its place is no fault of the command's`, async () => {
      await assert.rejects(type(key).typed, { name: "CommandError", code: "cancelled", message: "nothing was given" });
    });
});
