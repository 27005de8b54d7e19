/**
 * Makes the same release once more under another version, signed by the key of the tests, with an index of both, in a
 * directory of its own: `node next-release.ts ARCHIVE VERSION DIRECTORY`. It takes seconds, and a build takes a minute.
 */
import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { releaseSchema } from "../../src/api/release.ts";
import { fileDigest } from "../../src/lib/file-digest.ts";
import { parseSecretKey, signatureText } from "../../hack/release/signature.ts";

const run = promisify(execFile);
const [archive = "", version = "", directory = ""] = process.argv.slice(2);
await mkdir(directory, { recursive: true });
await run("tar", ["-xzf", archive, "-C", directory]);
const [name = ""] = await readdir(directory);
const root = join(directory, `berth-${version}`);
await rename(join(directory, name), root);
const release = releaseSchema.parse(JSON.parse(await readFile(join(root, "release.json"), "utf8")));
for (const file of ["release.json", "package.json"]) {
  const path = join(root, file);
  const text = await readFile(path, "utf8");
  await writeFile(path, text.replace(/"version":\s*"[^"]*"/, `"version": "${version}"`));
}
const made = `berth-${version}-${release.target}.tar.gz`;
const path = join(directory, made);
await run("tar", ["--use-compress-program=gzip -1", "-cf", path, "-C", directory, `berth-${version}`]);
await rm(root, { recursive: true });
const entry = {
  version,
  released: "2026-11-29",
  state_format: release.state_format,
  files: {
    [release.target]: {
      url: made,
      sha256: (await fileDigest(path, "sha256")).toString("hex"),
      bytes: (await stat(path)).size,
      unpacked_bytes: release.unpacked_bytes,
    },
  },
};
const index = join(directory, "index.json");
await writeFile(index, JSON.stringify({ format: 1, channels: { stable: [entry] } }));
const key = parseSecretKey(await readFile(new URL("../fixtures/minisign/key.sec", import.meta.url), "utf8"), "key.sec");
for (const file of [path, index])
  await writeFile(
    `${file}.minisig`,
    signatureText(key, await fileDigest(file, "blake2b512"), `file:${basename(file)}`),
  );
await writeFile(join(directory, "key"), key.publicText.split("\n")[1] ?? "");
