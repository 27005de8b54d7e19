import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { copyFile, mkdir, open, readdir, readFile, rm, stat, truncate, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { CommandError } from "../../../src/cli/client.ts";
import { checkForUpdate, update } from "../../../src/tools/release/update.ts";
import { ownTarget } from "../../../src/tools/release/release-index.ts";
import { freePort } from "../../support/free-port.ts";
import { listen } from "../../support/listen.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { install, layoutIn, machine, makeArchive, optionsFor, publish, sign, stateOf, writeIndex } from "./machine.ts";

const run = promisify(execFile);

/** A machine with Berth 0.1.0, and a publisher with 0.2.0. */
async function scene() {
  const directory = await tempDir();
  const dir = join(directory.path, "machine");
  await install(dir, { version: "0.1.0" });
  const published = join(directory.path, "published");
  const index = await publish(published, { version: "0.2.0" });
  return {
    dir,
    index,
    published,
    archive: join(published, `berth-0.2.0-${ownTarget()}.tar.gz`),
    /** The error of an update, after which 0.1.0 runs as before and nothing else is left. */
    async refused(from: string = index, more = {}): Promise<CommandError> {
      const error = await rejectionOf(update(optionsFor(dir, [], { from, ...more })), CommandError);
      assert.ok(!error.message.includes("\n"), error.message);
      assert.ok(error.next !== undefined && error.next !== "");
      const runs = { operator: "0.1.0", gateway: "0.1.0", standby: undefined };
      assert.deepEqual(await stateOf(dir), { current: "0.1.0", works: "0.1.0", ...runs });
      assert.deepEqual((await readdir(layoutIn(dir).prefix)).toSorted(), ["0.1.0", "current", "installed.json"]);
      assert.deepEqual(await machine(dir).calls(), [""]);
      return error;
    },
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

/** An archive of these files, made by tar as it is. */
async function archiveOf(published: string, args: readonly string[]): Promise<string> {
  const archive = join(published, "odd.tar.gz");
  await run("tar", ["-czPf", archive, ...args]);
  await sign(archive);
  return archive;
}

describe("berth update leaves the running version alone, and says in one line why", () => {
  it("the archive is not that of the index, or is cut short", async () => {
    await using at = await scene();
    const { size } = await stat(at.archive);
    const file = await open(at.archive, "r+");
    await file.write(Buffer.from([0x55]), 0, 1, size - 20);
    await file.close();
    assert.match(
      (await at.refused()).message,
      /berth-0\.2\.0-.*\.tar\.gz is not the file of the index: its SHA-256 is [0-9a-f]{64}/,
    );
    await truncate(at.archive, size - 100);
    assert.equal((await at.refused()).code, "update.checksum");
    // Without an index, the signature shows it.
    assert.match((await at.refused(at.archive)).message, /is not the file that the key [0-9A-F]{16} has signed/);
    // And with a signature, tar.
    await sign(at.archive);
    const error = await at.refused(at.archive);
    assert.equal(error.code, "update.archive");
    assert.match(error.message, /the archive cannot be unpacked: tar ended with 2/);
  });

  it("a signature is missing, no signature, or another key's", async () => {
    await using at = await scene();
    await rm(`${at.archive}.minisig`);
    assert.match((await at.refused()).message, /\.tar\.gz has no signature: there is no .*\.minisig beside it/);
    await writeFile(`${at.archive}.minisig`, "yes\n");
    assert.match((await at.refused(at.archive)).message, /is not one of minisign$/);
    // The index is signed by the publisher, the key of this machine is another one.
    const other = (await readFile(new URL("../../fixtures/minisign/other.pub", import.meta.url), "utf8")).split(
      "\n",
    )[1];
    assert.match(
      (await at.refused(at.index, { updateKey: other })).message,
      /index\.json is signed by the key .*, and not by/,
    );
    assert.match(
      (await at.refused(at.index, { updateKey: "x" })).message,
      /^update_key is not a public key of minisign$/,
    );
    await rm(join(layoutIn(at.dir).current, "minisign.pub"));
    assert.match((await at.refused()).message, /published without a key/);
  });

  it("a signature is that of another file of the same publisher", async () => {
    await using at = await scene();
    const older = await makeArchive(at.published, { version: "0.1.5" });
    for (const suffix of ["", ".minisig"]) await copyFile(`${older}${suffix}`, `${at.archive}${suffix}`);
    const error = await at.refused(at.archive);
    assert.equal(error.code, "update.signature");
    assert.match(error.message, /berth-0\.2\.0-.* is signed as berth-0\.1\.5-.*\.tar\.gz, and not as berth-0\.2\.0-/);
  });

  it("--check or --from is given what it cannot use", async () => {
    await using at = await scene();
    const check = await rejectionOf(checkForUpdate(optionsFor(at.dir, [], { from: at.archive })), CommandError);
    assert.match(check.message, /^--check compares with an index of releases, and .*\.tar\.gz is one release$/);
    const mistyped = await at.refused(join(at.published, "indx.json"));
    assert.equal(mistyped.next, "check what --from names");
    const updateUrl = join(at.published, "indx.json");
    assert.equal((await at.refused(undefined, { from: undefined, updateUrl })).next, "check update_url in berth.toml");
  });

  it("the connection ends in the middle of the archive", async () => {
    await using at = await scene();
    await using server = createServer((request, response) => {
      const name = basename(request.url ?? "");
      const content = readFileSync(join(at.published, name));
      response.writeHead(200, { "content-length": content.length });
      if (!name.endsWith(".tar.gz")) response.end(content);
      else response.write(content.subarray(0, content.length / 2), () => response.destroy());
    });
    const error = await at.refused(`http://127.0.0.1:${await listen(server)}/index.json`);
    assert.deepEqual([error.code, error.next], ["update.unreachable", "check the network, then try again"]);
  });

  it("the index was altered, is a web page, has a newer format, or is not there", async () => {
    await using at = await scene();
    const text = await readFile(at.index, "utf8");
    await writeFile(at.index, text.replace("0.2.0", "0.3.0"));
    assert.match((await at.refused()).message, /index\.json is not the file that the key/);
    await writeIndex(at.published, "<!doctype html><title>Log in</title>");
    assert.match((await at.refused()).message, /index\.json is a web page, and not an index of releases$/);
    await writeIndex(at.published, "[1]");
    assert.match((await at.refused()).message, /index\.json is another file, and not an index/);
    await writeIndex(at.published, { format: 2, channels: [] });
    assert.match((await at.refused()).message, /index\.json has format 2, which is newer than this version$/);
    await writeIndex(at.published, { format: 1, channels: { stable: [{ version: "../../etc" }] } });
    assert.match((await at.refused()).message, /index\.json is a broken index: channels\.stable\.0\.version/);
    assert.match((await at.refused(join(at.published, "no.json"))).message, /no\.json is not there$/);
    assert.match((await at.refused(undefined, { from: undefined })).message, /names no place of newer ones/);
  });

  it("the network is not there, answers with an error, or is no HTTPS", async () => {
    await using at = await scene();
    const none = await at.refused(`http://127.0.0.1:${await freePort()}/`);
    assert.match(none.message, /^http:\/\/127\.0\.0\.1:\d+\/index\.json cannot be read: .*ECONNREFUSED/);
    await using server = createServer((request, response) => {
      if (request.url === "/cut/index.json") response.writeHead(200, { "content-length": "1000" }).end("{");
      else if (request.url === "/long/index.json") response.end("x".repeat(5_000_000));
      else response.writeHead(500).end();
    });
    const url = `http://127.0.0.1:${await listen(server)}`;
    assert.equal((await at.refused(`${url}/`)).message, `${url}/index.json answered 500`);
    assert.match((await at.refused(`${url}/cut/`)).message, /index\.json cannot be read: /);
    assert.match((await at.refused(`${url}/long/`)).message, /index\.json is longer than 4194304 bytes$/);
    assert.match((await at.refused("http://example.org/index.json")).message, /is not an https:\/\/ address$/);
  });

  it("the archive holds names outside of its directory, or no release", async () => {
    await using at = await scene();
    const outside = join(dirname(at.published), "outside");
    await mkdir(join(at.published, "berth-0.2.0"));
    await writeFile(join(at.published, "evil"), "evil");
    const moved = (to: string): readonly string[] => [
      "-C",
      at.published,
      "--transform",
      `s,^evil,${to},`,
      "berth-0.2.0",
      "evil",
    ];
    const up = await archiveOf(at.published, moved("berth-0.2.0/../../../outside"));
    assert.equal((await at.refused(up)).code, "update.archive");
    const absolute = await archiveOf(at.published, moved(outside));
    assert.match((await at.refused(absolute)).message, /the archive holds .*, and not one directory berth-VERSION/);
    const empty = await archiveOf(at.published, ["-C", at.published, "berth-0.2.0"]);
    assert.match((await at.refused(empty)).message, /is not a release of Berth$/);
    await assert.rejects(stat(outside), { code: "ENOENT" });
  });

  it("the archive is another version than the index says", async () => {
    await using at = await scene();
    await publish(at.published, { version: "0.3.0" });
    const text = await readFile(at.index, "utf8");
    await writeIndex(at.published, text.replace('"version":"0.3.0"', '"version":"0.4.0"'));
    assert.match((await at.refused()).message, /^the archive is Berth 0\.3\.0 for linux-/);
  });

  it("the program of the new release does not start, or is another version", async () => {
    await using at = await scene();
    const broken = await makeArchive(at.published, {
      version: "0.3.0",
      program: "#!/bin/sh\necho no glibc >&2\nexit 3\n",
    });
    assert.match((await at.refused(broken)).message, /^the program of 0\.3\.0 does not start here: .*no glibc/);
    const other = await makeArchive(at.published, { version: "0.3.0", program: "#!/bin/sh\necho 0.2.9\n" });
    assert.match((await at.refused(other)).message, /^the program of 0\.3\.0 says that it is 0\.2\.9$/);
  });

  it("an older release cannot read the state", async () => {
    await using at = await scene();
    await writeFile(join(at.dir, "state-format"), "2");
    assert.match(
      (await at.refused()).message,
      /^Berth 0\.2\.0 reads the state's format 1, and the state has format 2$/,
    );
    assert.equal((await at.refused(at.archive)).code, "update.state_format");
  });

  it("another process changes the installation", async () => {
    await using at = await scene();
    const reached = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    const { health } = machine(at.dir);
    const stateFormat = async (): Promise<number> => {
      reached.resolve();
      await goOn.promise;
      return 1;
    };
    const first = update(optionsFor(at.dir, [], { from: at.index, health: { ...health, stateFormat } }));
    await reached.promise;
    const second = await rejectionOf(update(optionsFor(at.dir, [], { from: at.index })), CommandError);
    assert.equal(second.message, `another installation, update or removal runs (process ${process.pid})`);
    goOn.resolve();
    await first;
    assert.equal((await stateOf(at.dir))["current"], "0.2.0");
  });

  it("the disk is full", { skip: process.getuid?.() !== 0 && "only root can mount a small disk" }, async () => {
    await using at = await scene();
    const { prefix } = layoutIn(at.dir);
    const mounted = join(at.dir, "small");
    await mkdir(mounted);
    await run("mount", ["-t", "tmpfs", "-o", "size=300k", "tmpfs", mounted]);
    try {
      await run("cp", ["-a", `${prefix}/.`, mounted]);
      await run("mount", ["--bind", mounted, prefix]);
      try {
        // Its size is known before it is fetched.
        assert.match((await at.refused()).message, /free, and the release needs/);
        // A server that says no size: the disk is full in the middle.
        await using server = createServer((_request, response) => {
          response.write("some");
          response.end(Buffer.alloc(400_000));
        });
        const url = `http://127.0.0.1:${await listen(server)}`;
        const full = await at.refused(`${url}/berth-0.2.0-${ownTarget()}.tar.gz`);
        assert.match(full.message, /^no space is left for .*\.update\.tar\.gz$/);
        // Or at unpacking.
        const large = await makeArchive(at.published, {
          version: "0.3.0",
          program: `#!/bin/sh\necho 0.3.0\n${"#".repeat(500_000)}\n`,
        });
        await using unsized = createServer((request, response) => {
          response.write("");
          response.end(readFileSync(join(at.published, basename(request.url ?? ""))));
        });
        const unpacking = await at.refused(`http://127.0.0.1:${await listen(unsized)}/${basename(large)}`);
        assert.equal(unpacking.code, "update.disk_full", unpacking.message);
        assert.match(unpacking.message, /\.update\.unpacked\..* has no room for the release$/);
      } finally {
        await run("umount", [prefix]);
      }
    } finally {
      await run("umount", [mounted]);
    }
  });
});
