import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdir, readdir, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { refuseDisks, refusePrivilegedMounts } from "../../../src/runtimes/docker/privileged-mounts.ts";
import { BadWorkload } from "../../../src/runtimes/start-failure.ts";
import { tempDir } from "../../support/temp-dir.ts";

describe("a mount of the manifest", () => {
  it("is refused where it would give control of the machine, and the message names the path", async () => {
    await using directory = await tempDir();
    const { path } = directory;
    for (const name of ["state/auth", "state/models/big", "config/slots", "data/deep", "etc"])
      await mkdir(join(path, name), { recursive: true });
    await symlink("/etc", join(path, "data/link"));
    await symlink(join(path, "data/deep"), join(path, "short"));
    await writeFile(join(path, "data/file"), "");
    const server = createServer().listen(join(path, "data/s"));
    await once(server, "listening");
    const guard = {
      socket: "/run/docker.sock",
      guarded: [join(path, "state"), join(path, "config")],
      open: [join(path, "state/models")],
    };
    const said = async (source: string, readOnly = true): Promise<string> => {
      try {
        await refusePrivilegedMounts([{ source, target: "/x", readOnly }], guard);
        return "";
      } catch (error) {
        assert.ok(error instanceof BadWorkload);
        return error.message;
      }
    };
    try {
      const refused: readonly [source: string, words: RegExp, readOnly?: boolean][] = [
        ["/", /^mounts: \/, which holds \/\S+, would give/],
        ["/proc", /^mounts: \/proc would give/],
        ["/dev/null", /^mounts: \/dev\/null, in \/dev, would give/],
        ["/etc", /^mounts: \/etc would give .*SVC_UNRESTRICTED_CONTAINERS=1/],
        ["/etc/ssl", /in \/etc, .*mount it read-only, or/, false],
        ["/usr", /\/usr would .*mount it read-only, or/, false],
        [join(path, "data/link"), /data\/link \(\/etc\) would give/],
        [join(path, "data/s"), /is a socket, which would give/],
        [join(path, "state/auth"), /in \S+\/state, would give/],
        [join(path, "config"), /config would give/],
        [join(path, "config/slots"), /in \S+\/config, would give/],
        [path, /which holds \S+\/state, would give/],
        [join(path, "nothing"), /does not exist on this machine/],
      ];
      for (const [source, words, readOnly] of refused) assert.match(await said(source, readOnly), words, source);
      // Docker takes this by the letter, for the directory `etc` beside the link.
      assert.match(await said(`${path}/short/../etc`), /without "\.\."$/);
      const allowed = ["data/deep", "data/file", "state/models", "state/models/big"].map((name) => join(path, name));
      for (const source of allowed) assert.equal(await said(source, false), "", source);
      assert.equal(await said("/usr"), "");
      assert.equal(await said("/etc/ssl"), "");
    } finally {
      server.close();
    }
  });
});

describe("a device of the manifest", () => {
  it("is no disk, by itself or in a directory", async (context) => {
    await using directory = await tempDir();
    const disk = (await readdir("/dev", { withFileTypes: true })).find((entry) => entry.isBlockDevice());
    await refuseDisks(["/dev/null", directory.path]);
    if (disk === undefined) return context.skip("there is no disk in /dev");
    const path = join("/dev", disk.name);
    const link = join(directory.path, "link");
    await symlink(path, link);
    for (const device of [path, link, "/dev/"])
      await assert.rejects(refuseDisks(["/dev/null", device]), {
        name: "BadWorkload",
        message: /^devices: the disk \S+ would give the container this machine; .*SVC_UNRESTRICTED_CONTAINERS=1/,
      });
  });
});
