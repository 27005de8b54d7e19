import assert from "node:assert/strict";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { runBerth } from "../../support/command.ts";
import { tempDir } from "../../support/temp-dir.ts";

const whisper = "ghcr.io/ggml-org/whisper.cpp:main";
const own = "registry.test/own:1";
const digest = `sha256:${"a".repeat(64)}`;
const lockText = `images:\n  ${whisper}: ${digest}\n  ${own}: ${digest}\n`;

/** `berth engine LINE` on a state directory with that lock file. */
async function site(lock?: string) {
  const directory = await tempDir();
  const stateDir = join(directory.path, "state");
  await mkdir(stateDir);
  const putLock = (text: string) => writeFile(join(stateDir, "engines.lock.yaml"), text);
  if (lock !== undefined) await putLock(lock);
  const env = { SVC_STATE_DIR: stateDir, SVC_CONFIG_DIR: join(directory.path, "config") };
  return {
    path: directory.path,
    putLock,
    engine: (line: string) => runBerth(["engine", ...line.split(" ")], env),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

describe("berth engine", () => {
  it("list names every shipped image and who pins it", async () => {
    await using at = await site(lockText);
    assert.deepEqual(await at.engine("list"), {
      code: 0,
      stdout: `ENGINE  BACKEND  IMAGE                                     PINNED BY
llama   cpu      ghcr.io/ggml-org/llama.cpp:server         engines.yaml
llama   vulkan   ghcr.io/ggml-org/llama.cpp:server-vulkan  engines.yaml
llama   rocm     ghcr.io/ggml-org/llama.cpp:server-rocm    engines.yaml
llama   cuda     ghcr.io/ggml-org/llama.cpp:server-cuda    engines.yaml
stt     cpu      ghcr.io/ggml-org/whisper.cpp:main         first pull
tts     cpu      ghcr.io/remsky/kokoro-fastapi-cpu:v0.8.0  -
-       -        registry.test/own:1                       first pull
`,
      stderr: "",
    });
    const { data }: { data: { engine: string; digest: string }[] } = JSON.parse(
      (await at.engine("list -o json")).stdout,
    );
    assert.equal(data.find(({ engine }) => engine === "stt")?.digest, digest);
  });

  it("pin writes what pulls have found, keeps comments, and is idempotent", async () => {
    await using at = await site();
    const file = join(at.path, "engines.yaml");
    await copyFile("manifests/engines.yaml", file);
    const pin = async (): Promise<string> => (await at.engine(`pin --file ${file}`)).stdout;
    const nothing = "nothing to pin: no image without a digest has been pulled\n";
    assert.equal(await pin(), nothing);
    await at.putLock(lockText);
    assert.equal(await pin(), `pinned in ${file}: ${whisper}\n`);
    const text = await readFile(file, "utf8");
    assert.ok(text.startsWith("# Images that run engines"));
    assert.ok(text.includes(`image: ${whisper}\n      digest: ${digest}\n`));
    assert.equal(await pin(), nothing);
  });

  for (const [line, lock, said] of [
    ["list", "images: [1]\n", /engines\.lock\.yaml: images: [^\n]*\nmend it, or remove it: [^\n]*\n$/],
    ["list", "images: {\n", /engines\.lock\.yaml: [^\n]*\nmend it, or remove it: /],
    ["pin --file /none.yaml", lockText, /\/none\.yaml cannot be read\nmend it, or put back/],
  ] as const)
    it(`${line} says which file cannot be used: ${JSON.stringify(lock.slice(0, 11))}`, async () => {
      await using at = await site(lock);
      const { code, stderr } = await at.engine(line);
      assert.equal(code, 1);
      assert.match(stderr, /^engine\.images_unusable: /);
      assert.match(stderr, said);
    });
});
