import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmod, copyFile, mkdir, readFile, readdir, symlink, truncate, writeFile } from "node:fs/promises";
import { arch } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { installScript } from "../../../hack/release/publication.ts";
import { startFileServer } from "../../doubles/file-server.ts";
import { endOf, type Ended } from "../../support/command.ts";
import { tempDir } from "../../support/temp-dir.ts";

const name = `berth-1.2.3-linux-${arch()}.tar.gz`;

/** A DOUBLE of a release's `bin/berth`, which says how it is called. */
const berth = `#!/bin/sh
echo "called as \${0#"$TMPDIR"/berth-install-??????}:"
for each; do echo "[$each]"; done
[ "$(stat -c %a "$(dirname "$0")/../..")" = 755 ] || echo "other users cannot read this"
exit "\${BERTH_EXIT:-0}"
`;

interface Site extends AsyncDisposable {
  readonly path: string;
  readonly archive: string;
  /** Runs `install.sh` to its end. */
  readonly install: (args?: readonly string[], env?: NodeJS.ProcessEnv) => Promise<Ended>;
  /** The files that are left in the directory for temporary ones. */
  readonly left: () => Promise<readonly string[]>;
}

/** `install.sh` in a directory, and an archive with a double of Berth in another one. */
async function site(url = ""): Promise<Site> {
  const directory = await tempDir();
  const at = (...names: string[]): string => join(directory.path, ...names);
  for (const each of ["tree/berth-1.2.3/bin", "served", "script", "tmp"]) await mkdir(at(each), { recursive: true });
  await writeFile(at("tree/berth-1.2.3/bin/berth"), berth, { mode: 0o755 });
  const archive = at("served", name);
  execFileSync("tar", ["-C", at("tree"), "-czf", archive, "berth-1.2.3"]);
  const sum = createHash("sha256")
    .update(await readFile(archive))
    .digest("hex");
  await writeFile(at("script/install.sh"), await installScript("1.2.3", url, { x64: sum, arm64: sum }));
  const env = { PATH: process.env["PATH"], TMPDIR: at("tmp") };
  return {
    path: directory.path,
    archive,
    install: async (args = [], more = {}) =>
      await endOf("sh", [at("script/install.sh"), ...args], { ...env, ...more }, { cwd: directory.path }),
    left: async () => await readdir(at("tmp")),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

const called = (...args: string[]): Ended => ({
  code: 0,
  stdout: ["called as /berth-1.2.3/bin/berth:", ...["install", ...args].map((each) => `[${each}]`), ""].join("\n"),
  stderr: "",
});
const refused = (line: string): Ended => ({ code: 1, stdout: "", stderr: `install.sh: ${line}\n` });

describe("install.sh", () => {
  it("installs the archive beside it, and passes all arguments on", async () => {
    await using at = await site();
    await copyFile(at.archive, join(at.path, "script", name));
    assert.deepEqual(await at.install(), called());
    const args = ["--yes", "two words", "--model=$HOME", ""];
    assert.deepEqual(await at.install(args), called(...args));
    assert.deepEqual(await at.left(), []);
  });

  it("installs the archive that --from names, in both forms", async () => {
    await using at = await site();
    assert.deepEqual(await at.install(["--yes", "--from", at.archive, "a b"]), called("--yes", "a b"));
    assert.deepEqual(await at.install([`--from=${at.archive}`, "--yes"]), called("--yes"));
  });

  it("ends as `berth install` does, and leaves nothing in its temporary directory", async () => {
    await using at = await site();
    const { code } = await at.install(["--from", at.archive], { BERTH_EXIT: "3" });
    assert.equal(code, 3);
    assert.deepEqual(await at.left(), []);
  });

  it("shows its options, and unpacks nothing for them", async () => {
    await using at = await site();
    const { code, stdout, stderr } = await at.install(["--yes", "--help"]);
    assert.deepEqual([code, stderr], [0, ""]);
    for (const option of ["--from FILE|URL", "-y, --yes", "--model FILE", "--no-edge"])
      assert.ok(stdout.includes(option));
  });

  const canMount = spawnSync("unshare", ["--mount", "true"]).status === 0;
  it("says so where no program may run", { skip: canMount ? false : "nothing may be mounted here" }, async () => {
    await using at = await site();
    const line = 'mount -t tmpfs -o noexec none "$TMPDIR" && exec sh "$1" --from "$2"';
    const args = ["--mount", "sh", "-c", line, "sh", join(at.path, "script/install.sh"), at.archive];
    const { code, stderr } = await endOf("unshare", args, { TMPDIR: join(at.path, "tmp") });
    assert.equal(code, 1);
    assert.match(stderr, /^install\.sh: no program may run in \S+, as where it is mounted with noexec: set TMPDIR to/);
  });

  it("works through a pipe", async () => {
    await using at = await site();
    const line = `sh -s -- --yes --from "$1" < "$2"`;
    const args = ["-c", line, "sh", at.archive, join(at.path, "script/install.sh")];
    const env = { PATH: process.env["PATH"], TMPDIR: join(at.path, "tmp") };
    assert.deepEqual(await endOf("sh", args, env), called("--yes"));
  });

  it("downloads the archive from where the publisher serves it", async () => {
    await using server = await startFileServer();
    await using at = await site(`${server.url}/berth/`);
    server.files.set(`/berth/${name}`, { body: await readFile(at.archive) });
    const downloading = `downloading ${server.url}/berth/${name}\n`;
    const { stdout, ...ended } = called("--yes");
    assert.deepEqual(await at.install(["--yes"]), { ...ended, stdout: downloading + stdout });
    const elsewhere = `${server.url}/berth/${name}`;
    assert.deepEqual(await at.install(["--yes", "--from", elsewhere]), { ...ended, stdout: downloading + stdout });
  });

  it("refuses a truncated archive, and another one, in one line", async () => {
    await using at = await site();
    await truncate(at.archive, 100);
    const { code, stdout, stderr } = await at.install(["--from", at.archive]);
    assert.deepEqual([code, stdout], [1, ""]);
    const target = `linux-${arch()}`;
    const words = `is not the whole archive of Berth 1.2.3 for ${target}: its SHA-256 is [0-9a-f]{64}, and not [0-9a-f]{64}`;
    assert.match(stderr, new RegExp(`^install.sh: ${at.archive} ${words}\n$`));
    assert.deepEqual(await at.left(), []);
  });

  it("says in one line that there is no archive", async () => {
    await using at = await site();
    assert.deepEqual(await at.install(), refused(`${name} is not beside this script; name it with --from FILE`));
    assert.deepEqual(await at.install(["--from", "none"]), refused("none is not there"));
    assert.deepEqual(await at.install(["--from"]), refused("--from needs a file or an address"));
  });

  it("says in one line that the network, or the file there, is missing", async () => {
    await using server = await startFileServer();
    await using at = await site("http://127.0.0.1:1/");
    const nowhere = await at.install();
    assert.equal(nowhere.code, 1);
    assert.match(nowhere.stderr, /^install\.sh: http:\/\/127\.0\.0\.1:1\/\S+ could not be downloaded: .+\n$/);
    const absent = await at.install(["--from", `${server.url}/none`]);
    assert.equal(absent.code, 1);
    assert.match(absent.stderr, /^install\.sh: http:\S+\/none could not be downloaded: .*404.*\n$/);
    assert.deepEqual(await at.left(), []);
  });

  it("says in one line that nothing can download", async () => {
    await using at = await site("http://127.0.0.1:1/");
    const tools = join(at.path, "tools");
    await mkdir(tools);
    for (const each of ["chmod", "dirname", "mktemp", "rm", "sh", "uname"]) {
      const path = execFileSync("sh", ["-c", `command -v ${each}`], { encoding: "utf8" }).trim();
      await symlink(path, join(tools, each));
    }
    const { code, stderr } = await at.install([], { PATH: tools });
    const wanted = `curl or wget is needed to download http://127.0.0.1:1/${name}; or fetch it yourself, and name it with --from FILE`;
    assert.deepEqual([code, stderr], [1, `install.sh: ${wanted}\n`]);
  });

  it("says in one line that the disk is full", async () => {
    await using at = await site("http://127.0.0.1:1/");
    const doubles = join(at.path, "doubles");
    await mkdir(doubles);
    // DOUBLES of tar and curl on a full disk.
    await writeFile(
      join(doubles, "tar"),
      "#!/bin/sh\necho 'tar: a: Cannot write: No space left on device' >&2\nexit 2\n",
    );
    await writeFile(join(doubles, "curl"), "#!/bin/sh\necho 'curl: (23) Failure writing output' >&2\nexit 23\n");
    for (const each of ["tar", "curl"]) await chmod(join(doubles, each), 0o755);
    const env = { PATH: `${doubles}:${process.env["PATH"] ?? ""}` };
    const full = /^install\.sh: no space left in \S+\/tmp\/berth-install-\w+: set TMPDIR to another directory\n$/;
    for (const args of [["--from", at.archive], []]) {
      const { code, stderr } = await at.install(args, env);
      assert.equal(code, 1);
      assert.match(stderr, full);
    }
    const { code, stderr } = await at.install(["--from", at.archive], { TMPDIR: join(at.path, "none") });
    assert.equal(code, 1);
    assert.match(stderr, /install\.sh: no temporary directory can be made; set TMPDIR to another directory\n$/);
    assert.deepEqual(await at.left(), []);
  });
});
