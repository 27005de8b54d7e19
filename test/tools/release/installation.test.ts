import assert from "node:assert/strict";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { CommandError } from "../../../src/cli/client.ts";
import { installedRelease, settingsOf } from "../../../src/tools/release/installation.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { noOtherUser, twoUsersDir } from "../../support/other-user.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { layoutIn, makeTree } from "./machine.ts";

const asked = { version: "0.1.0", options: { check: false, rollback: false } };

describe("the installation that berth update changes", () => {
  it("is told its own command where it is a clone or a package of npm", async () => {
    await using directory = await tempDir();
    const clone = join(directory.path, "my clone");
    await mkdir(join(clone, "src/main"), { recursive: true });
    await writeFile(join(clone, "src/main/berth.ts"), "");
    const env = { HOME: directory.path };
    const one = await rejectionOf(installedRelease({ ...asked, root: clone, env }), CommandError);
    assert.equal(one.message, "0.1.0 cannot update itself: it is a clone");
    assert.equal(one.next, `cd '${clone}' && git pull --ff-only && make setup; then start Berth again`);
    const npm = join(directory.path, "lib/node_modules/berth");
    await mkdir(npm, { recursive: true });
    const options = { check: false, rollback: true };
    const other = await rejectionOf(installedRelease({ ...asked, root: npm, env, options }), CommandError);
    assert.equal(other.message, "0.1.0 cannot go back to a release: it is a package of npm");
    assert.equal(other.next, "npm install -g berth@VERSION");
  });

  it("is to be made first where the release is only unpacked", async () => {
    await using directory = await tempDir();
    const root = join(directory.path, "berth-0.1.0");
    await makeTree(root, { version: "0.1.0" });
    const error = await rejectionOf(installedRelease({ ...asked, root, env: { HOME: directory.path } }), CommandError);
    assert.equal(error.message, `this is an unpacked release in ${root}, which is not installed`);
    assert.equal(error.next, join(root, "install.sh"));
  });

  it("has the settings of its services", async () => {
    await using directory = await tempDir();
    const layout = layoutIn(directory.path);
    await mkdir(layout.configDir);
    await writeFile(layout.environmentFile, "SVC_PORT=8123\nSVC_UPDATE_URL=https://example.org/i.json\n");
    await writeFile(join(layout.configDir, "berth.toml"), 'update_key = "KEY"\n');
    const { config, updateUrl, updateKey } = await settingsOf(layout, { HOME: directory.path, SVC_PORT: "9" });
    assert.deepEqual([config.port, config.stateDir], [8123, layout.stateDir]);
    assert.deepEqual([updateUrl, updateKey], ["https://example.org/i.json", "KEY"]);
  });

  it("takes no key and no address for root from a file of the service's user", { skip: noOtherUser() }, async () => {
    await using directory = await twoUsersDir();
    const layout = { ...layoutIn(directory.path), isSystem: true, configDir: directory.theirs };
    const toml = join(layout.configDir, "berth.toml");
    const env = { HOME: directory.path };
    for (const [name, variable] of [
      ["update_key", "SVC_UPDATE_KEY"],
      ["update_url", "SVC_UPDATE_URL"],
    ] as const) {
      await writeFile(toml, `${name} = "https://example.org/"\n`);
      await rm(layout.environmentFile, { force: true });
      const error = await rejectionOf(settingsOf(layout, env), CommandError);
      assert.equal(error.code, "update.setting_untrusted");
      assert.match(error.message, new RegExp(`^${name} is in berth\\.toml, and .* does not belong to root`));
      assert.equal(error.next, `write ${variable} into ${layout.environmentFile} instead`);
      await writeFile(layout.environmentFile, `${variable}=https://example.com/\n`);
      const { updateKey, updateUrl } = await settingsOf(layout, env);
      assert.equal(updateKey ?? updateUrl, "https://example.com/");
    }
  });

  it("is found by the place of the program, and changed by its own user alone", async () => {
    await using directory = await tempDir();
    const [own, system] = ["own", "system"].map((name) => layoutIn(join(directory.path, name)));
    assert.ok(own !== undefined && system !== undefined);
    const env = { HOME: directory.path };
    const layouts = { own, system };
    const rootOf = async (prefix: string): Promise<string> => {
      await makeTree(join(prefix, "0.1.0"), { version: "0.1.0" });
      await writeFile(join(prefix, "installed.json"), "{}");
      return join(prefix, "0.1.0");
    };
    const [mine, roots] = [await rootOf(own.prefix), await rootOf(system.prefix)];
    const theirs = await rootOf(join(directory.path, "theirs/lib/berth"));
    assert.equal((await installedRelease({ ...asked, root: mine, env }, layouts)).layout, own);
    const refused = await rejectionOf(installedRelease({ ...asked, root: roots, env }, layouts), CommandError);
    assert.deepEqual(
      [refused.code, refused.message, refused.next],
      ["update.rights", "only root may change this installation", "sudo berth update"],
    );
    const look = { ...asked, options: { check: true, rollback: false } };
    assert.equal((await installedRelease({ ...look, root: roots, env }, layouts)).layout, system);
    // As `sudo ~/.local/bin/berth update`.
    const other = await rejectionOf(installedRelease({ ...asked, root: theirs, env }, layouts), CommandError);
    assert.deepEqual([other.code, other.next], ["update.rights", "run it as that user, without sudo"]);
  });
});
