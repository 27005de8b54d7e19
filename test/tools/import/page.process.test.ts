import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { writeTinyModel } from "../../../hack/tiny-model.ts";
import { runBerth } from "../../support/command.ts";
import { importSite } from "./site.ts";

const page = new URL("../../../docs/moving.md", import.meta.url);

it("docs/moving.md shows what its commands make of its files", async () => {
  await using site = await importSite();
  const text = await readFile(page, "utf8");
  const blocks = [...text.matchAll(/```(\w+)\n([^]*?)```/g)].map(([, language = "", block = ""]) => ({
    language,
    block,
  }));
  const shown = new Map<string, string>();
  for (const { language, block } of blocks) {
    const [, name = "", rest = ""] = /^[#;] (\S+)\n([^]*)$/.exec(block) ?? [];
    if (language !== "sh" && name.includes("/")) shown.set(name, rest);
    else if (language !== "sh") await writeFile(join(site.path, name), block);
  }
  await writeFile(
    join(site.path, "compose.yaml"),
    "services: { chat: { image: ghcr.io/ggml-org/llama.cpp:server, command: -m /m/a.gguf, volumes: ['/models:/m'] } }\n",
  );
  const digest = (letter: string): string => letter.repeat(64);
  const layers = [
    { mediaType: "application/vnd.ollama.image.model", digest: `sha256:${digest("a")}` },
    { mediaType: "application/vnd.ollama.image.params", digest: `sha256:${digest("b")}` },
  ];
  const store = join(site.path, ".ollama/models");
  await mkdir(join(store, "manifests/registry.ollama.ai/library/llama3.2"), { recursive: true });
  await writeFile(join(store, "manifests/registry.ollama.ai/library/llama3.2/3b"), JSON.stringify({ layers }));
  await writeTinyModel(join(store, `blobs/sha256-${digest("a")}`));
  await writeFile(join(store, `blobs/sha256-${digest("b")}`), '{"num_ctx":8192}');
  await writeTinyModel(join(site.path, ".lmstudio/models/a/B-GGUF/B.gguf"));
  const commands = [...text.matchAll(/berth (config import [\w-]+ ?[\w./~-]*)/g)].map(([, command = ""]) =>
    command.trim(),
  );
  assert.deepEqual(commands, [
    "config import llama-swap config.yaml",
    "config import llama-server models.ini",
    "config import ollama",
    "config import ollama ~/.ollama",
    "config import lm-studio ~/.lmstudio",
    "config import compose compose.yaml",
  ]);
  const env = {
    HOME: site.path,
    SVC_CONFIG_DIR: site.configDir,
    SVC_STATE_DIR: join(site.path, "state"),
    SVC_MODELS_DIR: "/models",
  };
  const before = process.cwd();
  process.chdir(site.path);
  using _back = { [Symbol.dispose]: () => process.chdir(before) };
  for (const command of commands) {
    const { code, stderr } = await runBerth(`${command.replace("~", site.path)} --yes`.split(" "), env);
    assert.deepEqual([code, stderr], [0, ""], command);
  }
  const made = await site.manifests();
  for (const [name, expected] of shown) assert.equal(made[name], expected, name);
  assert.match(made["slots/gemma-12b.yaml"] ?? "", /aliases:\n {2}- Gemma:12b\n/);
  assert.equal(shown.size, 3);
});
