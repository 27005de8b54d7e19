import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { access, chmod, readFile, writeFile } from "node:fs/promises";
import { createServer, type RequestListener } from "node:http";
import { join } from "node:path";
import { describe, it } from "node:test";
import { CommandError } from "../../src/cli/client.ts";
import { followRunning } from "../../src/program/running.ts";
import { startBerth } from "../support/berth.ts";
import { berthProcess } from "../support/command.ts";
import { listen } from "../support/listen.ts";
import { noOtherUser, otherUser, twoUsersDir } from "../support/other-user.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

const home = "/home/you";
const places = { configDir: "/srv/berth", stateDir: "/var/berth", host: "127.0.0.1", port: 8080 };
const isBerth = JSON.stringify({ name: "berth", ...places });
const followed =
  "acting on the Berth that runs here: configuration /srv/berth, state /var/berth (SVC_CONFIG_DIR and SVC_STATE_DIR name another)\n";

/** A DOUBLE of the operator's page, or of another program on its port. */
async function page(answer: string | RequestListener): Promise<AsyncDisposable & { readonly port: string }> {
  const server = createServer(typeof answer === "string" ? (_, response) => response.end(answer) : answer);
  const port = String(await listen(server));
  const close = async (): Promise<void> => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return { port, [Symbol.asyncDispose]: close };
}

/** How a command goes on from that environment: the variables that it gets, and what it says. */
async function follow(more: NodeJS.ProcessEnv, server?: string, answerMs?: number) {
  const env: NodeJS.ProcessEnv = { HOME: home, ...more };
  let said = "";
  await followRunning(env, { server, note: (text) => (said += text), ...(answerMs !== undefined && { answerMs }) });
  const { SVC_CONFIG_DIR: configDir, SVC_STATE_DIR: stateDir, SVC_PORT: port } = env;
  return { configDir, stateDir, port, said };
}

/** Why the directories of a named service are not known. */
async function refusal(server: string, port: string): Promise<string> {
  return await follow({ SVC_OPERATOR_PORT: port }, server).then(
    () => assert.fail("it is not refused"),
    (error: unknown) => {
      assert.ok(error instanceof CommandError && error.code === "server.places");
      const [, why = ""] = /are not known: (.*)/.exec(String(error)) ?? [];
      return why;
    },
  );
}

const nowhere = { configDir: undefined, stateDir: undefined, port: undefined };

describe("a command on the machine of a Berth with directories of its own", { concurrency: true }, () => {
  it("acts on that Berth, after a message that names it", async () => {
    await using operator = await page(isBerth);
    const found = { configDir: "/srv/berth", stateDir: "/var/berth", port: "8080", said: followed };
    const env = { SVC_OPERATOR_PORT: operator.port };
    assert.deepEqual(await follow(env), found);
    assert.deepEqual(await follow(env, "http://localhost:8080"), found);
    assert.equal((await follow({ ...env, SVC_PORT: "7" })).port, "7", "what is named counts");
    const named = { ...env, SVC_CONFIG_DIR: home };
    assert.deepEqual(await follow(named), { ...nowhere, configDir: home, said: "" });
  });

  it("refuses to act on files here for a service that is elsewhere, or may be", async () => {
    await using operator = await page(isBerth);
    for (const [server, port, why] of [
      ["http://user:secret@192.0.2.1:8080", "1", "it is a service of another machine"],
      ["nonsense", "1", "that is not the address of a service"],
      [
        "http://localhost:1",
        operator.port,
        `the operator on 127.0.0.1:${operator.port} (SVC_OPERATOR_PORT) belongs to the service on port 8080`,
      ],
      [`http://127.0.0.1:${operator.port}`, "1", "no operator answers on 127.0.0.1:1 (SVC_OPERATOR_PORT)"],
    ] as const)
      assert.equal(await refusal(server, port), why);
  });

  it("acts on this user's own files where nothing runs, or no operator does", async () => {
    await using stranger = await page("{}");
    for (const port of ["1", stranger.port])
      assert.deepEqual(await follow({ SVC_OPERATOR_PORT: port }), { ...nowhere, said: "" });
    assert.deepEqual(await follow({ SVC_OPERATOR_PORT: "1" }, "http://127.0.0.1:1"), { ...nowhere, said: "" });
  });

  it("does without an operator that does not answer, and says so", async () => {
    await using silent = await page(() => undefined);
    const { said, ...variables } = await follow({ SVC_OPERATOR_PORT: silent.port }, undefined, 50);
    assert.deepEqual(variables, nowhere);
    assert.match(said, /^127\.0\.0\.1:\d+, where an operator would answer .* does not answer for 0\.05 s: acting on /);
  });

  it("lets no other user choose the directories of root's commands", { skip: noOtherUser() ?? false }, async () => {
    await using site = await twoUsersDir();
    const program =
      'const { createServer } = require("node:http"); const [, text] = process.argv;' +
      "const server = createServer((_request, response) => response.end(text));" +
      'server.listen(0, "127.0.0.1", () => console.log(server.address().port));';
    const stranger = spawn(process.execPath, ["-e", program, isBerth], {
      cwd: site.path,
      uid: otherUser,
      gid: otherUser,
      stdio: ["ignore", "pipe", "inherit"],
    });
    try {
      const [port] = await once(stranger.stdout.setEncoding("utf8"), "data");
      const env = { SVC_OPERATOR_PORT: String(port).trim() };
      assert.deepEqual(await follow(env), { ...nowhere, said: "" });
      assert.match(await refusal("http://127.0.0.1:8080", env.SVC_OPERATOR_PORT), / is another user's$/);
    } finally {
      stranger.kill();
    }
  });

  it("is any command on files: its settings, its tokens, its doctor", async () => {
    await using berth = await startBerth({});
    await using directory = await tempDir();
    await until("the operator is ready", async () => (await fetch(`${berth.operatorUrl}/readyz`)).ok);
    const editor = join(directory.path, "editor");
    await writeFile(editor, "#!/bin/sh\necho 'hold_seconds = 7' >\"$1\"\n");
    await chmod(editor, 0o755);
    // For a test that runs as root as well.
    const port = new URL(berth.operatorUrl).port;
    const env = { HOME: directory.path, SVC_OPERATOR_PORT: port, SVC_RUNTIME: "process", EDITOR: editor };
    const edited = await berthProcess(["config", "edit"], env);
    const first = `acting on the Berth that runs here: configuration ${berth.configDir}, state ${berth.stateDir} `;
    assert.ok(edited.stderr.startsWith(first), edited.stderr);
    assert.equal(await readFile(join(berth.configDir, "berth.toml"), "utf8"), "hold_seconds = 7\n");
    const made = await berthProcess(["token", "create", "--label", "a", "--scope", "all"], env);
    await access(join(berth.stateDir, "auth/tokens", `${made.stdout.slice(4, 12)}.json`));
    const doctor = await berthProcess(["doctor"], env);
    assert.match(doctor.stdout, /^ok {4}operator: process \d+/m);
    // The address that this Berth listens on, and not the default, which is every address.
    assert.match(doctor.stdout, /^ok {4}access: for this machine alone, at 127\.0\.0\.1:\d+$/m);
    // A directory that is named needs no service.
    const elsewhere = { ...env, SVC_URL: "http://192.0.2.1:8080" };
    assert.match((await berthProcess(["down"], elsewhere)).stderr, /^server\.places: /);
    const checked = await berthProcess(["config", "validate", berth.configDir], elsewhere);
    assert.deepEqual([checked.code, checked.stdout], [0, `${berth.configDir}: valid\n`]);
  });
});
