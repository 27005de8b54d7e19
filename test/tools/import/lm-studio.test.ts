import assert from "node:assert/strict";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { writeTinyModel } from "../../../hack/tiny-model.ts";
import { berthProcess } from "../../support/command.ts";
import { noOtherUser, otherUser } from "../../support/other-user.ts";
import { projector, writeProjector } from "../../support/projector.ts";
import { importSite, noServer } from "./site.ts";

// LM Studio's folders rebuilt from its documentation (lmstudio.ai/docs: "Import Models", "Per-model Defaults", "Idle TTL and
// Auto-Evict"); the files of saved settings as the app writes them.

const settings = ".internal/user-concrete-model-default-config";

async function studioSite() {
  const site = await importSite();
  const root = join(site.path, "lmstudio");
  const made = async (file: string): Promise<string> => {
    await mkdir(dirname(join(root, file)), { recursive: true });
    return join(root, file);
  };
  return {
    ...site,
    root,
    model: async (file: string): Promise<void> => writeTinyModel(await made(`models/${file}`)),
    projector: async (file: string): Promise<void> => writeProjector(await made(`models/${file}`), projector),
    put: async (file: string, text: string): Promise<void> => writeFile(await made(file), text),
    [Symbol.asyncDispose]: () => site[Symbol.asyncDispose](),
  };
}

const fields = (values: Readonly<Record<string, unknown>>): { readonly fields: readonly object[] } => ({
  fields: Object.entries(values).map(([key, value]) => ({ key, value })),
});

describe("berth config import lm-studio", () => {
  it("makes a slot of each model, with projector, shards and saved settings", async () => {
    await using site = await studioSite();
    await site.model("lmstudio-community/gemma-3-4b-it-GGUF/gemma-3-4b-it-Q4_K_M.gguf");
    await site.projector("lmstudio-community/gemma-3-4b-it-GGUF/mmproj-model-f16.gguf");
    await site.model("bartowski/Big-GGUF/Big-Q4_K_M-00001-of-00002.gguf");
    await site.model("bartowski/Big-GGUF/Big-Q4_K_M-00002-of-00002.gguf");
    await site.model("Qwen/Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M.gguf");
    await site.model("Qwen/Qwen3-8B-GGUF/Qwen3-8B-Q8_0.gguf");
    const saved = {
      preset: "@local:mine",
      operation: fields({
        "llm.prediction.temperature": 0.3,
        "llm.prediction.topPSampling": { checked: true, value: 0.9 },
        "llm.prediction.minPSampling": { checked: false, value: 0 },
        "llm.prediction.systemPrompt": "Be short.",
      }),
      load: fields({
        "llm.load.contextLength": 32768,
        "llm.load.llama.acceleration.offloadRatio": 1,
        "llm.load.numParallelSessions": 4,
        "llm.load.llama.flashAttention": true,
        "llm.load.llama.tryMmap": false,
        "llm.load.llama.keepModelInMemory": true,
        "llm.load.llama.kCacheQuantizationType": { checked: true, value: "q8_0" },
      }),
    };
    await site.put(`${settings}/Qwen/Qwen3-8B-GGUF/Qwen3-8B-Q8_0.gguf.json`, JSON.stringify(saved, null, 2));
    const { code, left } = await site.import(`lm-studio ${site.root} --yes`);
    const manifests = await site.manifests();
    assert.equal(code, 0);
    assert.deepEqual(Object.keys(manifests), [
      "groups/lm-studio.yaml",
      "models/Big-Q4_K_M.yaml",
      "models/Qwen3-8B-Q4_K_M.yaml",
      "models/Qwen3-8B-Q8_0.yaml",
      "models/gemma-3-4b-it-Q4_K_M.yaml",
      "slots/big.yaml",
      "slots/gemma-3-4b-it.yaml",
      "slots/qwen3-8b-q4-k-m.yaml",
      "slots/qwen3-8b-q8-0.yaml",
    ]);
    assert.equal(
      manifests["slots/qwen3-8b-q8-0.yaml"],
      `group: lm-studio
load: onDemand
idleSeconds: 3600
aliases:
  - Qwen/Qwen3-8B-GGUF/Qwen3-8B-Q8_0
  - qwen3-8b@q8_0
model:
  default: Qwen3-8B-Q8_0
  contextSize: 32768
args:
  - --flash-attn
  - "on"
  - --cache-type-k
  - q8_0
env:
  LLAMA_ARG_LOAD_MODE: mlock
request:
  set:
    temperature: 0.3
    top_p: 0.9
`,
    );
    const files = (...names: readonly string[]): string =>
      `files:\n${names.map((name) => `  - source: file://DIR/lmstudio/models/${name}\n`).join("")}`;
    const vision = "lmstudio-community/gemma-3-4b-it-GGUF";
    assert.equal(
      manifests["models/gemma-3-4b-it-Q4_K_M.yaml"],
      files(`${vision}/gemma-3-4b-it-Q4_K_M.gguf`, `${vision}/mmproj-model-f16.gguf`),
    );
    const split = "bartowski/Big-GGUF/Big-Q4_K_M-0000";
    assert.equal(manifests["models/Big-Q4_K_M.yaml"], files(`${split}1-of-00002.gguf`, `${split}2-of-00002.gguf`));
    const place = `DIR/lmstudio/${settings}/Qwen/Qwen3-8B-GGUF/Qwen3-8B-Q8_0.gguf.json`;
    assert.deepEqual(left, [
      `${place}:2: preset: LM Studio's presets are not read`,
      `${place}:23: llm.prediction.systemPrompt: a slot has no system prompt: clients send it`,
      `${place}:39: llm.load.numParallelSessions: LM Studio's requests share one context, and Berth gives each its own: set model.parallel`,
      noServer("Qwen3-8B-Q8_0"),
    ]);
  });

  it("says what it does not carry: half a model, safetensors, broken settings", async () => {
    await using site = await studioSite();
    await site.model("a/Whole-GGUF/Whole-Q4_0.gguf");
    await site.put(`${settings}/a/Whole-GGUF/Whole-Q4_0.gguf.json`, '{ "load": [');
    await site.model("a/Half-GGUF/Half-00001-of-00002.gguf");
    await site.put("models/mlx-community/Coder-4bit/model.safetensors", "");
    const { left } = await site.import(`lm-studio ${site.root} --yes`);
    assert.deepEqual(left, [
      `DIR/lmstudio/${settings}/a/Whole-GGUF/Whole-Q4_0.gguf.json:1: its settings: it is no valid YAML or JSON: Flow sequence in block collection must be sufficiently indented and end with a ]`,
      "DIR/lmstudio/models/a/Half-GGUF/Half-00001-of-00002.gguf: Half: not carried: 1 of its 2 parts are there",
      "DIR/lmstudio/models/mlx-community/Coder-4bit: mlx-community/Coder-4bit: not carried: its weights are safetensors (MLX), and llama.cpp loads GGUF",
    ]);
    assert.deepEqual(Object.keys(await site.manifests()), ["models/Whole-Q4_0.yaml", "slots/whole.yaml"]);
  });

  it("names a folder that this user may not read", { skip: noOtherUser() }, async () => {
    await using site = await studioSite();
    await site.model("a/Whole-GGUF/Whole-Q4_0.gguf");
    await chmod(site.path, 0o755);
    const folder = join(site.root, "models/a/Whole-GGUF");
    await chmod(folder, 0o700);
    const env = { ...site.env, HOME: "/nonexistent", SVC_CONFIG_DIR: site.configDir };
    const ids = { uid: otherUser, gid: otherUser };
    const { stdout } = await berthProcess(["config", "import", "lm-studio", site.root], env, ids);
    assert.equal(stdout, `Not carried, or not quite:\n  ${folder}: its models: this user may not read it\n`);
  });

  it("refuses a directory without models, and a missing one", async () => {
    await using site = await studioSite();
    await mkdir(site.root);
    const at = async (directory: string): Promise<string> =>
      (await site.import(`lm-studio ${join(site.path, directory)}`)).stderr;
    assert.equal(await at("lmstudio"), "import.empty: DIR/lmstudio: it holds no model\nnothing was written\n");
    assert.equal(
      await at("none"),
      "import.unreadable: DIR/none: it is not there\nname LM Studio's directory, such as ~/.lmstudio\n",
    );
  });
});
