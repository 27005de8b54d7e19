import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import type { IndexEntry } from "../../../src/api/release.ts";
import { fileDigest } from "../../../src/lib/file-digest.ts";
import { parsePublicKey, verifySignature } from "../../../src/lib/minisign.ts";
import { checkKey, isFirstChoice, readIndex, sign, sumsOf, withEntry } from "../../../hack/release/publication.ts";
import { parseSecretKey } from "../../../hack/release/signature.ts";
import { endOf, type Ended } from "../../support/command.ts";
import { tempDir } from "../../support/temp-dir.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const fixtures = join(root, "test/fixtures/minisign");
const key = parseSecretKey(await readFile(join(fixtures, "key.sec"), "utf8"), "key.sec");
const entry = (version: string): IndexEntry => ({ version, released: "2026-11-29", state_format: 1, files: {} });

describe("the index of a publisher", () => {
  it("has the releases of each channel, newest first", () => {
    let index = withEntry({ format: 1, channels: {} }, "stable", entry("0.2.0"));
    for (const version of ["0.10.0", "0.2.1", "0.2.0"]) index = withEntry(index, "stable", entry(version));
    index = withEntry(index, "nightly", entry("0.11.0-beta.1"));
    assert.deepEqual(
      index.channels.stable?.map(({ version }) => version),
      ["0.10.0", "0.2.1", "0.2.0"],
    );
    assert.deepEqual(index.channels.nightly, [entry("0.11.0-beta.1")]);
  });

  it("keeps the archive of another processor that was made before", () => {
    const file = { url: "a.tar.gz", sha256: "0".repeat(64), bytes: 1, unpacked_bytes: 1 };
    const first = withEntry({ format: 1, channels: {} }, "stable", { ...entry("0.2.0"), files: { "linux-x64": file } });
    const both = withEntry(first, "stable", { ...entry("0.2.0"), files: { "linux-arm64": file } });
    assert.deepEqual(both.channels.stable, [{ ...entry("0.2.0"), files: { "linux-x64": file, "linux-arm64": file } }]);
  });

  it("has install.sh install the newest stable release, or the newest while there is none", () => {
    const nightly = withEntry({ format: 1, channels: {} }, "nightly", entry("0.3.0-beta.1"));
    assert.equal(isFirstChoice(nightly, "0.3.0-beta.1"), true);
    const both = withEntry(nightly, "stable", entry("0.2.0"));
    assert.equal(isFirstChoice(both, "0.3.0-beta.1"), false);
    assert.equal(isFirstChoice(both, "0.2.0"), true);
    assert.equal(isFirstChoice(withEntry(both, "stable", entry("0.1.9")), "0.1.9"), false);
  });

  it("is read, is empty where there is none, and is refused where it is another file", async () => {
    await using directory = await tempDir();
    assert.deepEqual(await readIndex(directory.path), { format: 1, channels: {} });
    const file = join(directory.path, "index.json");
    await writeFile(file, JSON.stringify({ format: 1, channels: { stable: [entry("0.1.0")] } }));
    assert.deepEqual(await readIndex(directory.path), { format: 1, channels: { stable: [entry("0.1.0")] } });
    await writeFile(file, "{");
    await assert.rejects(readIndex(directory.path), { message: `${file} is not an index of releases: move it away` });
  });
});

describe("the sums of a publisher", () => {
  it("take the lines of new files, and keep those of others", async () => {
    await using directory = await tempDir();
    const file = join(directory.path, "b");
    await writeFile(file, "");
    const sum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const old = "0".repeat(64);
    const older = `${old}  a\n${old}  b\n`;
    assert.equal(await sumsOf(older, [file]), `${old}  a\n${sum}  b\n`);
    assert.equal(await sumsOf("", [file]), `${sum}  b\n`);
  });
});

describe("the key of a publisher", () => {
  it("signs a file under its name, with the version", async () => {
    await using directory = await tempDir();
    const file = join(directory.path, "index.json");
    await writeFile(file, "{}");
    await sign(file, "0.1.0", key);
    const signed = {
      name: "index.json",
      digest: await fileDigest(file, "blake2b512"),
      signature: await readFile(`${file}.minisig`, "utf8"),
    };
    assert.equal(verifySignature(parsePublicKey(key.publicText, "key"), signed), "berth 0.1.0\tfile:index.json");
  });

  it("is that of the releases in the directory", async () => {
    await using directory = await tempDir();
    await checkKey(directory.path, undefined);
    await checkKey(directory.path, key);
    const file = join(directory.path, "minisign.pub");
    await writeFile(file, key.publicText);
    await checkKey(directory.path, key);
    await assert.rejects(checkKey(directory.path, undefined), {
      message: `the releases in ${directory.path} are signed by the key ${key.id}: name it with KEY=`,
    });
    const other = await readFile(join(fixtures, "other.pub"), "utf8");
    await writeFile(file, other);
    const { id } = parsePublicKey(other, "other.pub");
    await assert.rejects(checkKey(directory.path, key), {
      message: `the releases in ${directory.path} are signed by the key ${id}, and not by ${key.id}; remove ${file} to change the key`,
    });
  });
});

describe("make release", () => {
  const main = join(root, "hack/release/main.ts");
  const made = async (...args: string[]): Promise<Ended> =>
    await endOf(process.execPath, ["--disable-warning=ExperimentalWarning", main, ...args], process.env);
  const refused = (line: string): Ended => ({ code: 1, stdout: "", stderr: `make release: ${line}\n` });

  it("says in one line what it cannot do with its settings, and writes nothing", async () => {
    await using directory = await tempDir();
    const place = ["--directory", join(directory.path, "release")];
    const whole = ["--version", "0.1.0", ...place];
    for (const [args, line] of [
      [place, "VERSION=: give a version, such as 0.2.0 or 0.2.0-beta.1"],
      [["--version", "v1", ...place], "VERSION=v1: give a version, such as 0.2.0 or 0.2.0-beta.1"],
      [[...whole, "--channel", "beta"], "CHANNEL=beta: give one of stable, nightly"],
      [[...whole, "--url", "example.org"], "URL=example.org: give an address that begins with https://"],
      [[...whole, "--only", "linux"], "ONLY=linux: give one of linux-x64, linux-arm64"],
      [[...whole, "--key", join(fixtures, "key.pub")], `${join(fixtures, "key.pub")} is not a secret key of minisign`],
    ] as const) {
      assert.deepEqual(await made(...args), refused(line), args.join(" "));
    }
    await assert.rejects(readFile(join(directory.path, "release/index.json")), { code: "ENOENT" });
  });
});
