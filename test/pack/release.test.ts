import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { arch } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { releaseIndexSchema, releaseSchema } from "../../src/api/release.ts";
import { fileDigest } from "../../src/lib/file-digest.ts";
import { parsePublicKey, verifySignature } from "../../src/lib/minisign.ts";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { startBerth } from "../support/berth.ts";
import { berthProcess } from "../support/command.ts";
import { tempDir } from "../support/temp-dir.ts";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../..", import.meta.url));
const main = join(root, "hack/release/main.ts");
const keyFile = join(root, "test/fixtures/minisign/key.sec");
const version = "1.2.3-test.1";
const target = `linux-${arch()}`;
const archive = `berth-${version}-${target}.tar.gz`;

/** Makes a release, below that umask and in that time zone. */
async function made(directory: string, umask: string, zone: string): Promise<void> {
  const words = [
    "--version",
    version,
    "--key",
    keyFile,
    "--url",
    "https://example.org/berth",
    "--directory",
    directory,
  ];
  const node = `umask ${umask}; exec "$0" --disable-warning=ExperimentalWarning "$@"`;
  await run("sh", ["-c", node, process.execPath, main, ...words], { cwd: root, env: { ...process.env, TZ: zone } });
}

async function digests(directory: string): Promise<Readonly<Record<string, string>>> {
  const found: Record<string, string> = {};
  for (const name of (await readdir(directory)).toSorted())
    found[name] = (await fileDigest(join(directory, name), "sha256")).toString("hex");
  return found;
}

test("a release, made twice", { timeout: 1_200_000 }, async (t) => {
  await using directory = await tempDir();
  const first = join(directory.path, "first");
  await made(first, "022", "UTC");

  await t.test("has the same bytes each time", async () => {
    await made(join(directory.path, "second"), "077", "Asia/Tokyo");
    const sums = await digests(first);
    assert.deepEqual(await digests(join(directory.path, "second")), sums);
    assert.deepEqual(Object.keys(sums), [
      "SHA256SUMS",
      "SHA256SUMS.minisig",
      `berth-${version}-linux-arm64.deb`,
      `berth-${version}-linux-arm64.tar.gz`,
      `berth-${version}-linux-arm64.tar.gz.minisig`,
      `berth-${version}-linux-x64.deb`,
      `berth-${version}-linux-x64.tar.gz`,
      `berth-${version}-linux-x64.tar.gz.minisig`,
      `berth-chart-${version}.tgz`,
      `berth-embedded-image-${version}-${target}.tar`,
      `berth-image-${version}-${target}.tar`,
      `berth-npm-${version}.tgz`,
      "index.json",
      "index.json.minisig",
      "install.sh",
      "minisign.pub",
    ]);
    await run("sha256sum", ["--check", "--quiet", "--strict", "SHA256SUMS"], { cwd: first });
  });

  await t.test("is signed, and the index names its archives, each of at most 260 MB", async () => {
    const key = parsePublicKey(await readFile(join(first, "minisign.pub"), "utf8"), "minisign.pub");
    for (const name of (await readdir(first)).filter((each) => each.endsWith(".minisig"))) {
      const signed = name.replace(/\.minisig$/, "");
      const digest = await fileDigest(join(first, signed), "blake2b512");
      const signature = await readFile(join(first, name), "utf8");
      assert.equal(verifySignature(key, { name: signed, digest, signature }), `berth ${version}\tfile:${signed}`);
    }
    const index = releaseIndexSchema.parse(JSON.parse(await readFile(join(first, "index.json"), "utf8")));
    const [entry, ...others] = index.channels.stable ?? [];
    assert.deepEqual([entry?.version, entry?.state_format, others], [version, 1, []]);
    for (const [each, file] of Object.entries(entry?.files ?? {})) {
      const path = join(first, `berth-${version}-${each}.tar.gz`);
      assert.equal(file.url, `berth-${version}-${each}.tar.gz`);
      assert.equal(file.sha256, (await fileDigest(path, "sha256")).toString("hex"));
      assert.equal(file.bytes, (await stat(path)).size);
      assert.ok(file.bytes <= 260e6, `${file.bytes}`);
    }
    assert.deepEqual(Object.keys(entry?.files ?? {}), ["linux-x64", "linux-arm64"]);
  });

  const tree = join(directory.path, `berth-${version}`);
  await run("tar", ["-xzf", join(first, archive), "-C", directory.path]);
  const berth = join(tree, "bin/berth");
  // No Node and no npm are in reach: the release has its own, and fetches nothing.
  const tools = join(directory.path, "tools");
  await mkdir(tools);
  for (const each of ["dirname", "readlink"]) {
    const { stdout } = await run("sh", ["-c", `command -v ${each}`]);
    await symlink(stdout.trim(), join(tools, each));
  }

  await t.test("has its own Node and engine, its licences, and what it is", async () => {
    assert.deepEqual(await berthProcess(["--version"], { PATH: tools }, { program: berth }), {
      code: 0,
      stdout: `${version}\n`,
      stderr: "",
    });
    const release = releaseSchema.parse(JSON.parse(await readFile(join(tree, "release.json"), "utf8")));
    const { unpacked_bytes: bytes, ...told } = release;
    assert.deepEqual(told, { version, target, state_format: 1, update_url: "https://example.org/berth/index.json" });
    assert.ok(bytes > 100e6 && bytes < 500e6, `${bytes}`);
    assert.equal(
      await readFile(join(tree, "minisign.pub"), "utf8"),
      await readFile(join(first, "minisign.pub"), "utf8"),
    );
    const compose = await readFile(join(tree, "manifests/compose/compose.yaml"), "utf8");
    assert.ok(compose.includes(`:-localhost/berth:${version}}`));
    for (const name of ["LICENSE", "THIRD-PARTY-LICENSES.txt", "sbom.cdx.json", "install.sh"])
      assert.ok((await stat(join(tree, name))).size > 0, name);
    assert.deepEqual(
      await berthProcess(
        ["engine", "install", "embedded"],
        { PATH: tools, SVC_STATE_DIR: join(directory.path, "state"), SVC_CONFIG_DIR: join(directory.path, "config") },
        { program: berth },
      ),
      { code: 0, stdout: "the embedded engine comes with this release\n", stderr: "" },
    );
  });

  await t.test("serves a model with its own engine", async () => {
    await using running = await startBerth({
      program: berth,
      env: { PATH: tools },
      prepare: async ({ configDir, modelsDir }) => {
        await writeTinyModel(join(modelsDir, "tiny.gguf"));
        await writeFile(join(configDir, "slots/primary.toml"), '[model]\ndefault = "tiny"\n');
      },
    });
    await running.state("primary", "ready", "idle");
    const words = ["chat", "primary", "hi", "--max-tokens", "4"];
    const chat = await berthProcess(words, { PATH: tools, SVC_URL: running.url }, { program: berth });
    assert.deepEqual({ code: chat.code, stderr: chat.stderr }, { code: 0, stderr: "" });
    assert.notEqual(chat.stdout, "\n");
    assert.equal((await fetch(`${running.url}/`)).status, 200);
    assert.equal(await running.stop("SIGINT"), 0);
  });
});
