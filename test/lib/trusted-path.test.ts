import assert from "node:assert/strict";
import { chmod, chown, lchown, mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { distrust, type TrustOptions } from "../../src/lib/trusted-path.ts";
import { noOtherUser, otherUser } from "../support/other-user.ts";
import { tempDir } from "../support/temp-dir.ts";

/** With the test's own directory as DIR. */
async function reasonOf(base: string, path: string, options?: TrustOptions): Promise<string | undefined> {
  return distrust(join(base, path), options)?.reason.replaceAll(base, "DIR");
}

describe("a path that no other user may change", () => {
  it("is one of this user's own, existing or not", async () => {
    await using directory = await tempDir();
    assert.equal(await reasonOf(directory.path, "."), undefined);
    assert.equal(await reasonOf(directory.path, "not/there"), undefined);
    assert.equal(distrust("/proc/version/no-directory"), undefined, "using it fails by itself");
  });

  it("is not a path that every user may write, or rename by writing above it, but one below a sticky directory", async () => {
    await using directory = await tempDir();
    for (const path of ["open/inner", "tmp/inner"]) await mkdir(join(directory.path, path), { recursive: true });
    await chmod(join(directory.path, "open"), 0o777);
    await chmod(join(directory.path, "tmp"), 0o1777);
    const open = "DIR/open may be written by everybody (mode 777)";
    for (const [path, reason] of [
      ["open", open],
      ["open/inner", open],
      ["open/not-there", open],
      ["tmp", "DIR/tmp may be written by everybody (mode 1777)"],
      // As /tmp is, once the path is there.
      ["tmp/inner", undefined],
      ["tmp/berth", "DIR/tmp/berth is not there, and everybody may make it: DIR/tmp is open to all"],
    ] as const)
      assert.equal(await reasonOf(directory.path, path), reason);
  });

  it("is not a path below a directory that a group may write", { skip: noOtherUser() ?? false }, async () => {
    await using directory = await tempDir();
    await mkdir(join(directory.path, "shared/inner"), { recursive: true });
    await chown(join(directory.path, "shared"), 0, otherUser);
    await chmod(join(directory.path, "shared"), 0o1775);
    assert.equal(await reasonOf(directory.path, "shared/inner"), undefined);
    const reason = "DIR/shared/berth is not there, and a group may make it: DIR/shared is open to it";
    assert.equal(await reasonOf(directory.path, "shared/berth"), reason);
  });

  it("is judged where its links lead", async () => {
    await using directory = await tempDir();
    await mkdir(join(directory.path, "open"));
    await chmod(join(directory.path, "open"), 0o777);
    await symlink("open", join(directory.path, "relative"));
    await symlink(join(directory.path, "open"), join(directory.path, "absolute"));
    await symlink("itself", join(directory.path, "itself"));
    const reason = "DIR/open may be written by everybody (mode 777)";
    assert.equal(await reasonOf(directory.path, "relative"), reason);
    assert.equal(await reasonOf(directory.path, "absolute"), reason);
    assert.equal(await reasonOf(directory.path, "itself"), undefined, "using it fails by itself");
  });

  it("is judged with what lies in it, as far as that says what runs", async () => {
    await using directory = await tempDir();
    await mkdir(join(directory.path, "slots"));
    await mkdir(join(directory.path, "other"));
    const manifest = join(directory.path, "slots/a.toml");
    await writeFile(manifest, "");
    const options = { depth: 2, entries: /^slots(\/[^/]+\.toml)?$/ };
    assert.equal(await reasonOf(directory.path, ".", options), undefined);
    await chmod(join(directory.path, "other"), 0o777);
    assert.equal(await reasonOf(directory.path, ".", options), undefined);
    assert.match((await reasonOf(directory.path, ".", { depth: 1 })) ?? "", /^DIR\/other may be written by everybody/);
    await chmod(manifest, 0o666);
    assert.equal(
      await reasonOf(directory.path, ".", options),
      "DIR/slots/a.toml may be written by everybody (mode 666)",
    );
  });

  it("is not one of another user", async () => {
    await using directory = await tempDir();
    // As that user sees it: the test's own directory is a stranger's.
    const own = process.getuid?.() ?? 0;
    if (own === 0) await chown(directory.path, otherUser, otherUser);
    const uid = own === 0 ? 0 : own + 1;
    assert.match((await reasonOf(directory.path, ".", { uid })) ?? "", /^DIR belongs to .*uid \d+\)?, who may change/);
  });

  it("has no link of another user in it", { skip: noOtherUser() ?? false }, async () => {
    await using directory = await tempDir();
    const link = join(directory.path, "link");
    await mkdir(join(directory.path, "mine"));
    await symlink("mine", link);
    assert.equal(await reasonOf(directory.path, "link"), undefined);
    await lchown(link, otherUser, otherUser);
    assert.match((await reasonOf(directory.path, "link")) ?? "", /^DIR\/link is a link of \S+ \(uid 65534\)/);
  });

  it("may be written by a group that is this user's alone", { skip: noOtherUser() ?? false }, async () => {
    await using directory = await tempDir();
    await chmod(directory.path, 0o775);
    assert.equal(await reasonOf(directory.path, "."), undefined, "root's own group");
    await chown(directory.path, 0, otherUser);
    assert.equal(await reasonOf(directory.path, "."), "DIR may be written by its group (mode 775)");
  });
});
