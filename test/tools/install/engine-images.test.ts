import assert from "node:assert/strict";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { runBerth } from "../../support/command.ts";
import { tempDir } from "../../support/temp-dir.ts";

const whisper = "ghcr.io/ggml-org/whisper.cpp:main";
const digest = `sha256:${"a".repeat(64)}`;

async function scene(
  run: (dir: string, berth: (...args: string[]) => ReturnType<typeof runBerth>) => Promise<void>,
): Promise<void> {
  await using directory = await tempDir();
  const stateDir = join(directory.path, "state");
  await mkdir(stateDir);
  const env = { SVC_STATE_DIR: stateDir, SVC_CONFIG_DIR: join(directory.path, "config") };
  await run(directory.path, (...args) => runBerth(args, env));
}

const own = "registry.test/own:1";
const lockText = `images:\n  ${whisper}: ${digest}\n  ${own}: ${digest}\n`;

test("engine list names every shipped image and who pins it", async () => {
  await scene(async (dir, berth) => {
    await writeFile(join(dir, "state/engines.lock.yaml"), lockText);
    const { code, stdout } = await berth("engine", "list", "-o", "json");
    assert.equal(code, 0);
    const list: { data: { engine: string; backend: string; pinned: string; digest: string }[] } = JSON.parse(stdout);
    const rows = list.data;
    assert.deepEqual(
      rows.map(({ engine, backend, pinned }) => `${engine} ${backend} ${pinned}`),
      [
        "llama cpu engines.yaml",
        "llama vulkan engines.yaml",
        "llama rocm engines.yaml",
        "llama cuda engines.yaml",
        "stt cpu first pull",
        "tts cpu ",
        "  first pull",
      ],
    );
    assert.equal(rows[4]?.digest, digest);
    assert.deepEqual(await berth("engine", "list"), {
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
  });
});

test("engine pin writes what pulls have found, keeps comments, and is idempotent", async () => {
  await scene(async (dir, berth) => {
    const file = join(dir, "engines.yaml");
    await copyFile("manifests/engines.yaml", file);
    const nothing = "nothing to pin: no image without a digest has been pulled\n";
    assert.deepEqual(await berth("engine", "pin", "--file", file), { code: 0, stdout: nothing, stderr: "" });
    await writeFile(join(dir, "state/engines.lock.yaml"), lockText);
    assert.equal((await berth("engine", "pin", "--file", file)).stdout, `pinned in ${file}: ${whisper}\n`);
    const text = await readFile(file, "utf8");
    assert.ok(text.startsWith("# Images that run engines"));
    assert.ok(text.includes(`image: ${whisper}\n      digest: ${digest}\n`));
    assert.equal((await berth("engine", "pin", "--file", file)).stdout, nothing);
  });
});

test("engine list and pin say which file cannot be used", async () => {
  await scene(async (dir, berth) => {
    await writeFile(join(dir, "state/engines.lock.yaml"), "images: [1]\n");
    const { code, stderr } = await berth("engine", "list");
    assert.equal(code, 1);
    assert.match(
      stderr,
      /^engine\.images_unusable: [^\n]*engines\.lock\.yaml: images: [^\n]*\nmend it, or remove it: [^\n]*\n$/,
    );
    await writeFile(join(dir, "state/engines.lock.yaml"), "images: {\n");
    const torn = await berth("engine", "list");
    assert.match(torn.stderr, /^engine\.images_unusable: [^\n]*engines\.lock\.yaml: [^\n]*\nmend it, or remove it: /);
    const missing = await berth("engine", "pin", "--file", join(dir, "none.yaml"));
    assert.match(missing.stderr, /none\.yaml cannot be read\nmend it, or put back/);
  });
});
