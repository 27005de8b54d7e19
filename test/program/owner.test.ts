import assert from "node:assert/strict";
import {
  chmod,
  chown,
  lchown,
  mkdir,
  readdir,
  readFile,
  readlink,
  stat,
  symlink,
  unlink,
  writeFile,
} from "node:fs/promises";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { buildProgram } from "../../src/main/program.ts";
import { berthProcess, type Ended } from "../support/command.ts";
import { noOtherUser, otherUser, twoUsersDir } from "../support/other-user.ts";
import { tempDir } from "../support/temp-dir.ts";

const skip = noOtherUser() ?? false;

interface Site extends AsyncDisposable {
  /** Root's, readable by root alone. */
  readonly secret: string;
  readonly path: string;
  /** A state directory of the other user's. */
  readonly stateDir: string;
  readonly configDir: string;
  /** The other user puts a link there. */
  link(path: string, target: string): Promise<void>;
  give(path: string): Promise<void>;
  readonly env: NodeJS.ProcessEnv;
  berth(args: readonly string[], env?: NodeJS.ProcessEnv): Promise<Ended>;
}

/** Root's configuration, and the service's state. */
async function site(): Promise<Site> {
  const directory = await twoUsersDir();
  const { path, theirs: stateDir } = directory;
  const configDir = join(path, "config");
  await mkdir(join(configDir, "slots"), { recursive: true });
  const secret = join(path, "secret");
  await mkdir(secret, { mode: 0o750 });
  const places = { HOME: path, SVC_STATE_DIR: stateDir, SVC_CONFIG_DIR: configDir };
  const env = { ...places, SVC_RUNTIME: "process", SVC_PORT: "1" };
  return {
    path,
    secret,
    stateDir,
    configDir,
    async link(at, target) {
      await symlink(target, at);
      await lchown(at, otherUser, otherUser);
    },
    give: async (at) => await chown(at, otherUser, otherUser),
    env,
    berth: async (args, more = {}) => await berthProcess(args, { ...env, ...more }),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

const rights = async (path: string): Promise<string> => {
  const { uid, mode } = await stat(path);
  return `${uid} ${(mode & 0o777).toString(8)}`;
};
/** Of this process. */
const session = (): string | undefined => readFileSync(`/proc/${process.pid}/stat`, "utf8").split(" ")[5];
const render = { SVC_ADMIN_USER: "ada", SVC_ADMIN_PASSWORD: "a password of eighteen", SVC_AUTH_ENABLED: "1" };

describe("root in a directory of the service's user", { concurrency: 2, skip }, () => {
  it("makes tokens and the password's hash that are the service's", async () => {
    await using at = await site();
    const created = await at.berth(["token", "create", "--label", "a", "--scope", "all"]);
    assert.match(created.stdout, /^svc_/, created.stderr);
    assert.equal((await at.berth(["proxy", "render"], render)).code, 0);
    const [token = ""] = await readdir(join(at.stateDir, "auth/tokens"));
    const made = ["auth", "auth/tokens", `auth/tokens/${token}`, "auth/admin.json"];
    assert.deepEqual(await Promise.all(made.map((name) => rights(join(at.stateDir, name)))), [
      `${otherUser} 700`,
      `${otherUser} 700`,
      `${otherUser} 600`,
      `${otherUser} 600`,
    ]);
  });

  it("gives away nothing that a link of that user leads to, at any level", async () => {
    await using at = await site();
    const before = await rights(at.secret);
    const auth = join(at.stateDir, "auth");
    const create = ["token", "create", "--label", "a", "--scope", "all"];
    await at.link(auth, at.secret);
    assert.equal((await at.berth(create)).code, 1);
    assert.equal((await at.berth(["proxy", "render"], render)).code, 1);
    await unlink(auth);
    await mkdir(auth, { mode: 0o700 });
    await at.give(auth);
    await at.link(join(auth, "tokens"), at.secret);
    assert.equal((await at.berth(create)).code, 1);
    assert.deepEqual([await rights(at.secret), await readdir(at.secret)], [before, []]);
  });

  it("reads no file of root's by a link of that user", async () => {
    await using at = await site();
    const lock = join(at.secret, "lock.yaml");
    await writeFile(lock, `images: { "ghcr.io/x/y:1": "sha256:${"a".repeat(64)}" }\n`, { mode: 0o600 });
    await at.link(join(at.stateDir, "engines.lock.yaml"), lock);
    const listed = await at.berth(["engine", "list"]);
    assert.match(listed.stderr, /^engine\.images_unusable: .*engines\.lock\.yaml cannot be read/);
    assert.doesNotMatch(listed.stdout, /ghcr\.io\/x\/y/);
  });

  it("edits a copy of root's own, and runs what berth.toml names as that user and without a terminal", async () => {
    await using at = await site();
    const theirs = join(at.stateDir, "config");
    await mkdir(join(theirs, "slots"), { recursive: true });
    const program = join(at.stateDir, "llama-server");
    const editor = join(at.stateDir, "editor");
    await writeFile(program, `#!/bin/sh\n(id -ru; cut -d" " -f6,7 /proc/self/stat) >${at.stateDir}/ran-as\n`, {
      mode: 0o755,
    });
    await writeFile(
      editor,
      `#!/bin/sh\nstat -c '%u %a' "$(dirname "$1")" "$1" >${at.path}/edited\necho 'hold_seconds = 7' >>"$1"\n`,
      { mode: 0o755 },
    );
    await writeFile(join(theirs, "berth.toml"), `llama_server = "${program}"\n`);
    for (const path of [theirs, join(theirs, "slots"), join(theirs, "berth.toml"), program, editor])
      await at.give(path);
    const edited = await at.berth(["config", "edit"], { SVC_CONFIG_DIR: theirs, EDITOR: editor });
    assert.match(edited.stdout, /^saved /, edited.stderr);
    assert.equal(await readFile(join(at.path, "edited"), "utf8"), "0 700\n0 600\n");
    assert.match(await readFile(join(theirs, "berth.toml"), "utf8"), /\nhold_seconds = 7\n$/);
    assert.equal(await rights(join(theirs, "berth.toml")), `${otherUser} 644`);
    await at.berth(["doctor"], { SVC_CONFIG_DIR: theirs });
    const [ranAs, terminal] = (await readFile(join(at.stateDir, "ran-as"), "utf8")).split("\n");
    assert.equal(ranAs, String(otherUser));
    // A session of its own, and no terminal (0).
    assert.match(terminal ?? "", /^\d+ 0$/);
    assert.notEqual(terminal?.split(" ")[0], session());
  });

  it("starts no service there, and says what to do", async () => {
    await using at = await site();
    for (const command of ["up", "operator", "serve"])
      assert.match(
        await refusal([command], at.env),
        /^SettingsError: the state directory \S+ is not safe: \S+\/theirs belongs to \S+ \(uid 65534\).*; run this as that user, name a place of your own, or make it yours: chown/,
      );
    assert.deepEqual(await readdir(at.stateDir), []);
  });

  it("removes the state as its owner, root's configuration as root, and what no link leads to", async () => {
    await using at = await site();
    const kept = join(at.secret, "kept");
    await writeFile(kept, "");
    for (const name of ["instance", "logs", "slots"]) {
      if (name === "instance") await writeFile(join(at.stateDir, name), "i\n");
      else if (name === "logs") await at.link(join(at.stateDir, name), at.secret);
      else await mkdir(join(at.stateDir, name));
      if (name !== "logs") await at.give(join(at.stateDir, name));
    }
    const removed = await at.berth(["uninstall", "--yes", "--config"]);
    assert.equal(removed.code, 0, removed.stderr);
    assert.match(removed.stdout, /^no engine runs by the state directory /);
    assert.deepEqual((await readdir(at.path)).toSorted(), ["secret"]);
    assert.deepEqual(await readdir(at.secret), ["kept"]);
  });

  it("does not remove with root's rights what the service's user may not", async () => {
    await using at = await site();
    await writeFile(join(at.stateDir, "instance"), "i\n");
    await at.give(join(at.stateDir, "instance"));
    // As if a directory had been put there between the look and the removal.
    await mkdir(join(at.stateDir, "aside/roots"), { recursive: true, mode: 0o755 });
    await writeFile(join(at.stateDir, "aside/roots/kept"), "");
    const { code, stderr } = await at.berth(["uninstall", "--yes"]);
    assert.equal(code, 1);
    assert.match(stderr, /^EACCES: permission denied/);
    assert.deepEqual(await readdir(join(at.stateDir, "aside/roots")), ["kept"]);
  });

  it("replaces a link in the place of the Caddyfile, and not the link's target", async () => {
    await using at = await site();
    const target = join(at.secret, "shadow");
    await writeFile(target, "root's", { mode: 0o600 });
    const file = join(at.stateDir, "Caddyfile");
    await at.link(file, target);
    const rendered = await at.berth(["proxy", "render", "--file", file], render);
    assert.equal(rendered.code, 0, rendered.stderr);
    assert.deepEqual([await readFile(target, "utf8"), await rights(target)], ["root's", "0 600"]);
    await assert.rejects(readlink(file), { code: "EINVAL" });
    assert.equal(await rights(file), "0 640");
  });
});

describe("directories that somebody else may change", { concurrency: 2 }, () => {
  const commands = [
    ["up"],
    ["serve"],
    ["operator"],
    ["down"],
    ["uninstall"],
    ["token", "list"],
    ["engine", "list"],
    ["config", "show"],
    ["proxy", "render"],
  ];

  for (const [what, variable] of [
    ["configuration", "SVC_CONFIG_DIR"],
    ["state", "SVC_STATE_DIR"],
    ["models", "SVC_MODELS_DIR"],
  ] as const)
    it(`stop every command, with the reason: ${what}`, async () => {
      await using directory = await tempDir();
      const [open, config] = [join(directory.path, "open"), join(directory.path, "config")];
      await mkdir(config);
      await mkdir(open);
      await chmod(open, 0o777);
      const places = { SVC_CONFIG_DIR: config, SVC_STATE_DIR: join(directory.path, "state") };
      const env = { HOME: directory.path, ...places, [variable]: open };
      const why = `${open} is not safe: ${open} may be written by everybody (mode 777); chmod go-w ${open}`;
      for (const command of commands)
        assert.equal(
          `${command.join(" ")}: ${await refusal(command, env)}`,
          `${command.join(" ")}: SettingsError: the ${what} directory ${why}`,
        );
      if (what !== "state") return;
      const doctor = await berthProcess(["doctor"], env);
      assert.equal(doctor.code, 1);
      assert.match(doctor.stdout, /^fail {2}(settings|state|models): .*open may be written by everybody/m);
      const { code, stderr } = await berthProcess(["token", "list"], env);
      assert.deepEqual([code, stderr], [1, `config.invalid: the ${what} directory ${why}\n`]);
    });

  it("stop none where only a manifest is open: the check and the doctor name it", async () => {
    await using directory = await tempDir();
    const file = join(directory.path, "config/slots/a.toml");
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, '[model]\ndefault = "m"\n');
    await chmod(file, 0o666);
    const places = { SVC_CONFIG_DIR: join(directory.path, "config"), SVC_STATE_DIR: join(directory.path, "state") };
    const env = { HOME: directory.path, ...places };
    const why = `${file}: is not read: ${file} may be written by everybody (mode 666); check what it holds, then chmod go-w ${file}`;
    const checked = await berthProcess(["config", "validate"], env);
    assert.deepEqual([checked.code, checked.stdout], [1, `${why}\n`]);
    const doctor = await berthProcess(["doctor"], env);
    assert.ok(doctor.stdout.includes(`fail  manifests: ${why}\n`), doctor.stdout);
  });
});

/** Why a command line is refused, without a process of its own. */
async function refusal(args: readonly string[], env: NodeJS.ProcessEnv): Promise<string> {
  const silent = (): void => undefined;
  const program = buildProgram({
    env: { SVC_OPERATOR_PORT: "0", ...env },
    write: silent,
    note: silent,
    input: () => process.stdin,
    output: process.stdout,
    screen: process.stderr,
    exit: silent,
  });
  return await program.parseAsync(["node", "berth", ...args]).then(() => "it is done", String);
}
