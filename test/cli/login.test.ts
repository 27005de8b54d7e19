import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { chmod, mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { describe, it } from "node:test";
import { readSecret } from "../../src/cli/login.ts";
import { apiDouble, failure, type Answer } from "../support/api-double.ts";
import { command } from "../support/berth.ts";
import { runBerth, type Ended } from "../support/command.ts";
import { noOtherUser, otherUser } from "../support/other-user.ts";
import { tempDir } from "../support/temp-dir.ts";

const token = "svc_abcdefgh.0123456789";
const on = { "/api/auth/status": { enabled: true }, "/api/auth/me": { identity: "me", scope: "all", source: "token" } };

/** `berth login` with a text on its standard input. */
async function login(url: string, home: string, typed: string): Promise<Ended> {
  const child = spawn(command, ["login"], { env: { PATH: process.env["PATH"], HOME: home, SVC_URL: url } });
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  child.stdin.end(typed);
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, stdout, stderr };
}

describe("berth login", () => {
  it("tries a token, stores it readable for its owner alone, and uses it for that server only", async () => {
    await using home = await tempDir();
    await using api = await apiDouble({ ...on, "/api/slots": { object: "list", data: [] } });
    await using other = await apiDouble({ "/api/slots": { object: "list", data: [] } });
    const file = join(home.path, ".local/share/berth/credentials.json");
    assert.deepEqual(await login(api.url, home.path, `${token}\n`), {
      code: 0,
      stdout: `logged in to ${api.url} as me (all); the token is kept in ${file}\n`,
      stderr: "",
    });
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    assert.deepEqual(JSON.parse(await readFile(file, "utf8")), { schema: 1, servers: { [api.url]: token } });
    const env = { HOME: home.path };
    await runBerth(["--server", `${api.url}/`, "slot", "list"], env);
    await runBerth(["--server", other.url, "slot", "list"], env);
    assert.deepEqual(api.authorizations, [undefined, `Bearer ${token}`, `Bearer ${token}`]);
    assert.deepEqual(other.authorizations, [undefined]);
    await runBerth(["--server", api.url, "slot", "list"], { ...env, SVC_TOKEN: "svc_other.1" });
    assert.equal(api.authorizations.at(-1), "Bearer svc_other.1");

    const forgotten = await runBerth(["--server", api.url, "login", "--forget"], env);
    assert.equal(
      forgotten.stdout,
      `forgot the token of ${api.url} in ${file}; it stays valid until \`berth token revoke\`\n`,
    );
    assert.deepEqual(JSON.parse(await readFile(file, "utf8")), { schema: 1, servers: {} });
  });

  it("takes the token of an earlier version out of the configuration directory, which may be kept in Git", async () => {
    await using home = await tempDir();
    await using api = await apiDouble({ "/api/slots": { object: "list", data: [] } });
    const former = join(home.path, ".config/berth/credentials.json");
    await mkdir(join(home.path, ".config/berth"), { recursive: true });
    await writeFile(former, JSON.stringify({ schema: 1, servers: { [api.url]: token } }), { mode: 0o600 });
    await runBerth(["--server", api.url, "slot", "list"], { HOME: home.path });
    assert.deepEqual(api.authorizations, [`Bearer ${token}`]);
    await assert.rejects(stat(former), { code: "ENOENT" });
    const file = join(home.path, ".local/share/berth/credentials.json");
    assert.deepEqual(JSON.parse(await readFile(file, "utf8")), { schema: 1, servers: { [api.url]: token } });
    assert.equal((await stat(file)).mode & 0o777, 0o600);
  });

  it("keeps a token where one directory is that of data and of configuration", async () => {
    await using home = await tempDir();
    await using api = await apiDouble({ "/api/slots": { object: "list", data: [] } });
    const file = join(home.path, "berth/credentials.json");
    await mkdir(join(home.path, "berth"));
    await writeFile(file, JSON.stringify({ schema: 1, servers: { [api.url]: token } }), { mode: 0o600 });
    const env = { XDG_DATA_HOME: home.path, XDG_CONFIG_HOME: home.path };
    for (let time = 0; time < 2; time += 1) await runBerth(["--server", api.url, "slot", "list"], env);
    assert.deepEqual(api.authorizations, [`Bearer ${token}`, `Bearer ${token}`]);
    assert.deepEqual(JSON.parse(await readFile(file, "utf8")), { schema: 1, servers: { [api.url]: token } });
  });

  it(
    "is not needed where the home directory cannot be read, as for a service that root has started",
    { skip: noOtherUser() ?? false },
    async () => {
      await using home = await tempDir();
      await using api = await apiDouble({ "/api/slots": { object: "list", data: [] } });
      const child = spawn(command, ["--server", api.url, "slot", "list"], {
        env: { PATH: process.env["PATH"], HOME: home.path },
        uid: otherUser,
        gid: otherUser,
        stdio: ["ignore", "ignore", "pipe"],
      });
      let stderr = "";
      child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
      const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
      assert.deepEqual([code, stderr], [0, ""]);
    },
  );

  it("stores no token that the service refuses", async () => {
    await using home = await tempDir();
    const refuse: Answer = (response) => {
      response.statusCode = 401;
      response.end(JSON.stringify(failure("auth.invalid", "the token is unknown")));
    };
    await using api = await apiDouble({ ...on, "/api/auth/me": refuse });
    const ended = await login(api.url, home.path, token);
    assert.deepEqual(ended, {
      code: 1,
      stdout: "",
      stderr: "auth.invalid: the token is unknown\nrun `berth login`, or give a valid token in SVC_TOKEN\n",
    });
    const typo = await login(api.url, home.path, "hunter2");
    assert.equal(typo.code, 1);
    assert.match(typo.stderr, /^auth\.invalid: that is no token; one looks like svc_<id>\.<secret>\n/);
    await assert.rejects(stat(join(home.path, ".config")), { code: "ENOENT" });
  });

  it("asks for nothing where authentication is off", async () => {
    await using home = await tempDir();
    await using api = await apiDouble({ "/api/auth/status": { enabled: false } });
    assert.deepEqual(await login(api.url, home.path, ""), {
      code: 0,
      stdout: `${api.url} needs no token: authentication is off\n`,
      stderr: "",
    });
  });

  it("does not use a file that others may read", async () => {
    await using home = await tempDir();
    await using api = await apiDouble(on);
    await login(api.url, home.path, token);
    const file = join(home.path, ".local/share/berth/credentials.json");
    await chmod(file, 0o640);
    assert.deepEqual(await runBerth(["--server", api.url, "slot", "list"], { HOME: home.path }), {
      code: 1,
      stdout: "",
      stderr: `credentials.exposed: ${file} may be read by others\nchmod 600 ${file}\n`,
    });
    await chmod(file, 0o600);
    await writeFile(file, "{");
    assert.match(
      (await runBerth(["--server", api.url, "slot", "list"], { HOME: home.path })).stderr,
      /^credentials\.invalid: .* does not read as JSON\nremove it, and run `berth login`\n$/,
    );
  });

  it("reports a missing home directory", async () => {
    await using api = await apiDouble(on);
    const { code, stderr } = await runBerth(["--server", api.url, "login", "--forget"], {});
    assert.deepEqual(
      [code, stderr],
      [1, "credentials.nowhere: there is no HOME to keep a token in\ngive it in SVC_TOKEN instead\n"],
    );
  });
});

it("a terminal does not show typed text", async () => {
  const [input, output] = [Object.assign(new PassThrough(), { isTTY: true }), new PassThrough()];
  const typed = readSecret("Token: ", input, output);
  input.write("svc_a.b\r\n");
  assert.equal(await typed, "svc_a.b");
  assert.equal(String(output.read()), "Token: \n");
});

for (const [name, key] of [
  ["Ctrl-C", "\u0003"],
  ["Ctrl-D", "\u0004"],
] as const)
  it(`${name} in place of a token is no fault of the command's`, async () => {
    const [input, output] = [Object.assign(new PassThrough(), { isTTY: true }), new PassThrough()];
    const typed = readSecret("Token: ", input, output);
    input.write(key);
    await assert.rejects(typed, { name: "CommandError", code: "cancelled", message: "no token was given" });
  });
