import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { access, chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { describe, it } from "node:test";
import { startBerth } from "../support/berth.ts";
import { runBerth } from "../support/command.ts";
import { noOtherUser, otherUser, twoUsersDir } from "../support/other-user.ts";
import { listen } from "../support/listen.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

function unknownPlaces(server: string, why: string): string {
  const next =
    "name them in SVC_CONFIG_DIR and SVC_STATE_DIR; or leave out --server and unset SVC_URL, for the service of this machine";
  return `server.places: this command acts on files of this machine, and those of ${server} are not known: ${why}\n${next}\n`;
}

describe("a command on the machine of a Berth with directories of its own", () => {
  it("acts on that Berth, after a message that names it", async () => {
    await using berth = await startBerth({});
    await using home = await tempDir();
    const ready = async (): Promise<boolean> => (await fetch(`${berth.operatorUrl}/readyz`)).ok;
    await until("the operator is ready", ready);
    const editor = join(home.path, "editor");
    await writeFile(editor, "#!/bin/sh\necho 'hold_seconds = 7' >\"$1\"\n");
    await chmod(editor, 0o755);
    const env = {
      HOME: home.path,
      // For a test that runs as root as well.
      SVC_OPERATOR_PORT: new URL(berth.operatorUrl).port,
      SVC_RUNTIME: "process",
      EDITOR: editor,
    };
    const first = `acting on the Berth that runs here: configuration ${berth.configDir}, state ${berth.stateDir} `;
    const edited = await runBerth(["config", "edit"], env);
    assert.ok(edited.stderr.startsWith(first), edited.stderr);
    assert.match(edited.stdout, /^saved \S+berth\.toml/);
    assert.equal(await readFile(join(berth.configDir, "berth.toml"), "utf8"), "hold_seconds = 7\n");
    const down = await runBerth(["down"], env);
    assert.match(down.stderr, /^acting on the Berth [^\n]+\noperator\.running: another operator /);
    const made = await runBerth(["token", "create", "--label", "a", "--scope", "all"], env);
    await access(join(berth.stateDir, "auth/tokens", `${made.stdout.slice(4, 12)}.json`));
    const doctor = await runBerth(["doctor"], env);
    assert.match(doctor.stdout, /^ok {4}operator: process \d+/m);
    // The address that this Berth listens on, and not the default, which is every address.
    assert.match(doctor.stdout, /^ok {4}access: for this machine alone, at 127\.0\.0\.1:\d+$/m);
    const named = await runBerth(["config", "show"], { ...env, SVC_CONFIG_DIR: home.path, SVC_STATE_DIR: home.path });
    assert.equal(named.stderr, "", "what is named counts");
    const shown = await runBerth(["config", "show"], { ...env, SVC_URL: berth.url });
    assert.ok(shown.stderr.startsWith(first), shown.stderr);
    const other = await runBerth(["--server", "http://localhost:1", "down"], env);
    const port = new URL(berth.url).port;
    const operator = `127.0.0.1:${env.SVC_OPERATOR_PORT} (SVC_OPERATOR_PORT)`;
    assert.equal(
      other.stderr,
      unknownPlaces("http://localhost:1", `the operator on ${operator} belongs to the service on port ${port}`),
    );
    const unseen = await runBerth(["config", "edit", "x"], { ...env, SVC_OPERATOR_PORT: "1", SVC_URL: berth.url });
    const no = "no operator answers on 127.0.0.1:1 (SVC_OPERATOR_PORT)";
    assert.deepEqual([unseen.code, unseen.stderr], [1, unknownPlaces(berth.url, no)]);
    assert.match(named.stdout, new RegExp(`SVC_STATE_DIR +${home.path} `));
  });

  it("refuses to act on files here for a service of another machine, except on files that are named", async () => {
    await using home = await tempDir();
    await mkdir(join(home.path, "slots"));
    const env = { HOME: home.path, SVC_OPERATOR_PORT: "1", SVC_URL: "http://user:secret@192.0.2.1:8080" };
    for (const args of [["config", "show"], ["config", "validate"], ["config", "edit"], ["down"], ["uninstall"]]) {
      const { code, stdout, stderr } = await runBerth(args, env);
      const message = unknownPlaces("http://192.0.2.1:8080", "it is a service of another machine");
      assert.deepEqual([code, stdout, stderr], [1, "", message], args.join(" "));
    }
    const checked = await runBerth(["config", "validate", home.path], env);
    assert.deepEqual([checked.code, checked.stdout], [0, `${home.path}: valid\n`]);
    const places = { SVC_CONFIG_DIR: home.path, SVC_STATE_DIR: join(home.path, "state") };
    assert.equal((await runBerth(["config", "show"], { ...env, ...places })).code, 0);
  });

  it("acts on this user's own files where nothing runs at the named address", async () => {
    await using home = await tempDir();
    const env = { HOME: home.path, SVC_OPERATOR_PORT: "1", SVC_URL: "http://127.0.0.1:1" };
    const { code, stderr } = await runBerth(["config", "show"], env);
    assert.deepEqual([code, stderr], [0, ""]);
  });

  it("lets no other user choose the directories of root's commands", { skip: noOtherUser() ?? false }, async () => {
    await using site = await twoUsersDir();
    const places = { name: "berth", configDir: site.path, stateDir: site.theirs, modelsDir: site.path };
    const program =
      'const { createServer } = require("node:http"); const [, text] = process.argv;' +
      "const server = createServer((_request, response) => response.end(text));" +
      'server.listen(0, "127.0.0.1", () => console.log(server.address().port));';
    const stranger = spawn(process.execPath, ["-e", program, JSON.stringify(places)], {
      uid: otherUser,
      gid: otherUser,
      stdio: ["ignore", "pipe", "inherit"],
    });
    try {
      const [port] = await once(stranger.stdout.setEncoding("utf8"), "data");
      const shown = await runBerth(["config", "show"], { HOME: site.path, SVC_OPERATOR_PORT: String(port).trim() });
      assert.equal(shown.stderr, "");
      assert.ok(!shown.stdout.includes(site.path), shown.stdout);
    } finally {
      stranger.kill();
    }
  });

  it("sends no question twice, and is not delayed by a program that is no operator", async () => {
    await using home = await tempDir();
    const server = createServer((_request, response) => response.end("{}"));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    const shown = await runBerth(["config", "show"], { HOME: home.path, SVC_OPERATOR_PORT: String(port) });
    server.close();
    assert.deepEqual([shown.code, shown.stderr], [0, ""]);
  });

  it("does without an operator that does not answer, and says so", async () => {
    await using home = await tempDir();
    const server = createServer(() => undefined);
    const port = await listen(server);
    const shown = await runBerth(["config", "show"], { HOME: home.path, SVC_OPERATOR_PORT: String(port) });
    server.closeAllConnections();
    server.close();
    assert.equal(shown.code, 0);
    assert.match(
      shown.stderr,
      /^127\.0\.0\.1:\d+, where an operator would answer .* does not answer for 5 s: acting on /,
    );
  });
});
