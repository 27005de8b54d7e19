import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmod, chown, cp, mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { endOf } from "../../support/command.ts";
import { noOtherUser, otherUser, twoUsersDir } from "../../support/other-user.ts";
import { tempDir } from "../../support/temp-dir.ts";

const clone = fileURLToPath(new URL("../../..", import.meta.url));

/** A copy of the program in a directory, as a release that is compiled at its start. */
async function programIn(root: string): Promise<void> {
  await mkdir(root, { recursive: true });
  for (const part of ["src", "test/support", "test/tools/install", "manifests", "package.json"])
    await cp(join(clone, part), join(root, part), { recursive: true });
  await symlink(join(clone, "node_modules"), join(root, "node_modules"));
  await writeFile(join(root, "release.json"), "{}");
}

const canMount = spawnSync("unshare", ["--mount", "true"]).status === 0;
it(
  "berth install names the file that a full disk has no room for",
  { skip: canMount ? false : "nothing may be mounted here" },
  async () => {
    await using directory = await tempDir();
    const model = join(directory.path, "given.gguf");
    await writeFile(model, Buffer.concat([Buffer.from("GGUF"), Buffer.alloc(8 * 1024 * 1024)]));
    const disk = join(directory.path, "disk");
    await mkdir(disk);
    const script = `
    import { machine } from ${JSON.stringify(join(clone, "test/tools/install/machine.ts"))};
    await using at = await machine();
    await at.install({ model: ${JSON.stringify(model)} }).catch(({ message }) => console.log(message.replaceAll(at.path, "DIR")));`;
    const line = 'mount -t tmpfs -o size=4m none "$TMPDIR" && exec "$0" --input-type=module -e "$1"';
    const { stdout } = await endOf("unshare", ["--mount", "sh", "-c", line, process.execPath, script], {
      TMPDIR: disk,
    });
    assert.match(stdout, /: no space is left \(DIR\/var\/berth\/models\/given\.gguf\)\n$/);
  },
);

describe("a release that another user uses", { skip: noOtherUser() ?? false }, () => {
  it("is installed twice by root from a directory of root's alone, with files of the service's user", async () => {
    await using directory = await tempDir();
    const root = join(directory.path, "own/berth");
    await programIn(root);
    await chmod(join(directory.path, "own"), 0o700);
    const script = `
      import { chmod } from "node:fs/promises";
      import { machine } from ${JSON.stringify(join(root, "test/tools/install/machine.ts"))};
      await using at = await machine();
      await chmod(at.path, 0o755);
      at.setServiceUid(${otherUser});
      at.programs.add("caddy");
      const env = { SVC_AUTH_ENABLED: "1", SVC_HOSTNAME: "ai.local", SVC_ADMIN_USER: "ada", SVC_ADMIN_PASSWORD: "horse battery" };
      await at.install({ env });
      console.log(await at.install({ env }));`;
    const { stdout, stderr, code } = await endOf(process.execPath, ["--input-type=module", "-e", script]);
    assert.deepEqual([code, stderr.replaceAll(/^.*Warning.*\n/gm, "")], [0, ""]);
    assert.match(stdout, /all is as it should be\n\n$/);
  });

  it("is checked by root as what runs as the service's user", async () => {
    await using directory = await twoUsersDir();
    const env = {
      HOME: directory.path,
      SVC_CONFIG_DIR: directory.theirs,
      SVC_STATE_DIR: directory.theirs,
      SVC_OPERATOR_PORT: "0",
    };
    const { stdout } = await endOf(join(clone, "bin/berth"), ["doctor"], { ...env, SVC_PORT: "0" });
    assert.match(stdout, /access/);
    assert.doesNotMatch(stdout, /run as root/);
  });

  it("reads the settings of its installation below the shell's variables, and as an unpacked one does not", async () => {
    await using directory = await tempDir();
    await chmod(directory.path, 0o755);
    const installed = join(directory.path, ".local/lib/berth/0.1.0");
    const unpacked = join(directory.path, "unpacked");
    for (const root of [installed, unpacked]) await programIn(root);
    await mkdir(join(directory.path, ".config"));
    const file = join(directory.path, ".config/berth.env");
    await writeFile(file, "SVC_PORT=1\n", { mode: 0o600 });
    await chown(file, otherUser, otherUser);
    const status = async (root: string, env: NodeJS.ProcessEnv = {}) => {
      const words = ["--disable-warning=ExperimentalWarning", join(root, "src/main/berth.ts"), "status"];
      const own = { uid: otherUser, gid: otherUser, cwd: directory.path };
      return (await endOf(process.execPath, words, { HOME: directory.path, ...env }, own)).stderr;
    };
    assert.match(await status(installed), /http:\/\/127\.0\.0\.1:1\b/);
    assert.match(await status(installed, { SVC_PORT: "2" }), /http:\/\/127\.0\.0\.1:2\b/);
    assert.doesNotMatch(await status(unpacked), /127\.0\.0\.1:1\b/);
  });
});
