import assert from "node:assert/strict";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { writeTinyModel } from "../../../hack/tiny-model.ts";
import { openRegistry } from "../../../src/models/registry.ts";
import { readManifests } from "../../../src/store/files/manifest.ts";
import { berthProcess } from "../../support/command.ts";
import { noOtherUser, otherUser } from "../../support/other-user.ts";
import { projector, writeProjector } from "../../support/projector.ts";
import { importSite, noServer } from "./site.ts";

// A store rebuilt from Ollama's documentation (docs/modelfile.mdx, docs/faq.mdx and server/internal/manifest of
// github.com/ollama/ollama): manifests/HOST/NAMESPACE/NAME/TAG, with layers in blobs/sha256-….

const hash = (letter: string): string => letter.repeat(64);
const library = "registry.ollama.ai/library";

async function ollamaSite() {
  const site = await importSite();
  const root = join(site.path, "ollama/models");
  const blob = (letter: string): string => join(root, "blobs", `sha256-${hash(letter)}`);
  const put = async (file: string, text: string): Promise<void> => {
    await mkdir(dirname(join(root, file)), { recursive: true });
    await writeFile(join(root, file), text);
  };
  const json = async (letter: string, value: object): Promise<void> =>
    put(`blobs/sha256-${hash(letter)}`, JSON.stringify(value));
  /** `layers`: `model a` is a layer of that type with that blob. */
  const manifest = async (name: string, config: string, ...layers: readonly string[]): Promise<void> =>
    put(
      `manifests/${name}`,
      JSON.stringify({
        schemaVersion: 2,
        config: {
          mediaType: "application/vnd.docker.container.image.v1+json",
          digest: `sha256:${hash(config)}`,
          size: 1,
        },
        layers: layers.map((layer) => {
          const [type = "", letter = ""] = layer.split(" ");
          return { mediaType: `application/vnd.ollama.image.${type}`, digest: `sha256:${hash(letter)}`, size: 1 };
        }),
      }),
    );
  await mkdir(join(root, "blobs"), { recursive: true });
  await writeTinyModel(blob("a"));
  await writeTinyModel(blob("b"));
  await json("f", { model_format: "gguf" });
  return { ...site, root, blob, put, json, manifest, [Symbol.asyncDispose]: () => site[Symbol.asyncDispose]() };
}

describe("berth config import ollama", () => {
  it("makes a slot of each model, whose files stay where they are", async () => {
    await using site = await ollamaSite();
    await writeProjector(site.blob("c"), projector);
    await site.json("d", {
      num_ctx: 8192,
      stop: ["<|end|>"],
      temperature: 0.6,
      num_gpu: 20,
      f16_kv: true,
      use_mmap: false,
      num_predict: -1,
    });
    for (const tag of ["latest", "3b"])
      await site.manifest(`${library}/llama3.2/${tag}`, "f", "model a", "params d", "template 1", "license 1");
    await site.manifest(`${library}/nomic-embed-text/latest`, "f", "model b");
    await site.manifest(`${library}/gemma3/4b`, "f", "model a", "projector c", "system 1");
    await site.manifest("registry.ollama.ai/me/tuned/v1", "f", "model a", "adapter b");
    const { code, left } = await site.import(`ollama ${join(site.path, "ollama")} --yes`);
    const manifests = await site.manifests();
    assert.equal(code, 0);
    assert.match(manifests["groups/ollama.yaml"] ?? "", /^budget:\n {2}device: (?:host|gpu0)\n$/);
    assert.equal(
      manifests["slots/llama3-2.yaml"],
      `group: ollama
load: onDemand
idleSeconds: 300
aliases:
  - llama3.2
  - llama3.2:latest
  - llama3.2:3b
model:
  default: llama3-2
  contextSize: 8192
  gpuLayers: 20
  spill: allow
env:
  LLAMA_ARG_LOAD_MODE: none
request:
  set:
    stop:
      - <|end|>
    temperature: 0.6
`,
    );
    assert.match(
      manifests["slots/me-tuned-v1.yaml"] ?? "",
      /- me\/tuned:v1\nmodel:\n {2}default: llama3-2\nargs:\n {2}- --lora\n {2}- DIR.*sha256-b{64}\n/,
    );
    assert.deepEqual(left, [
      `DIR/ollama/models/manifests/${library}/gemma3/4b: gemma3:4b system: a slot has no system prompt: clients send it`,
      `DIR/ollama/models/manifests/${library}/llama3.2/3b: llama3.2:latest template: llama.cpp uses the chat template in the model's file, and not Ollama's`,
      `DIR/ollama/models/manifests/${library}/llama3.2/3b: llama3.2:latest f16_kv: llama-server has no such parameter`,
      noServer("me/tuned:v1"),
    ]);
    const declared = Object.entries(manifests).flatMap(([file, text]) =>
      file.startsWith("models/") ? readManifests(file, text.replaceAll("DIR", site.path)) : [],
    );
    await using registry = await openRegistry({ modelsDir: join(site.path, "models") });
    const records = await registry.records(
      declared.flatMap(({ name, spec }) =>
        spec !== undefined && "acceptLicense" in spec ? [{ name, spec, since: new Date(0) }] : [],
      ),
    );
    assert.deepEqual(
      records.map(({ ref, state, path, projectorPath }) => ({ ref, state, path, projectorPath })),
      [
        { ref: "gemma3-4b", state: "available", path: site.blob("a"), projectorPath: site.blob("c") },
        { ref: "llama3-2", state: "available", path: site.blob("a"), projectorPath: undefined },
        { ref: "nomic-embed-text", state: "available", path: site.blob("b"), projectorPath: undefined },
      ],
    );
  });

  it("finds the store that OLLAMA_MODELS or the home directory has", async () => {
    await using site = await ollamaSite();
    await site.manifest(`${library}/qwen3/latest`, "f", "model a");
    const named = await site.import("ollama", { OLLAMA_MODELS: site.root });
    assert.match(named.stdout, /\+\+\+ slots\/qwen3\.yaml/);
    const none = await site.import("ollama", { HOME: join(site.path, "nobody") });
    assert.equal(
      none.stderr,
      "import.unreadable: there is no Ollama in DIR/nobody/.ollama/models and /usr/share/ollama/.ollama/models\nname the directory: berth config import ollama DIR\n",
    );
  });

  it("says of each model that cannot be carried why, and carries the others", async () => {
    await using site = await ollamaSite();
    await site.json("e", { remote_host: "https://ollama.com:443", remote_model: "gpt-oss:120b" });
    await site.manifest(`${library}/whole/latest`, "f", "model a");
    await site.manifest("hf.co/owner/big/Q4_K_M", "f", "model a", "model b");
    await site.manifest(`${library}/gpt-oss/120b-cloud`, "e");
    await site.manifest(`${library}/tensors/latest`, "f", "tensor a");
    await site.manifest(`${library}/gone/latest`, "f", "model 9");
    await site.manifest(`${library}/lost/latest`, "f", "model b", "params 8");
    await site.put(`manifests/${library}/broken/latest`, '{"layers": [');
    await site.put(`manifests/${library}/huge/latest`, " ".repeat(1024 ** 2 + 1));
    const { code, left } = await site.import(`ollama ${site.root} --yes`);
    const at = (name: string, text: string): string => `DIR/ollama/models/manifests/${name}: ${text}`;
    assert.deepEqual(left, [
      `DIR/ollama/models/blobs/sha256-${hash("8")}: lost:latest params: it is not there`,
      at(
        "hf.co/owner/big/Q4_K_M",
        "hf.co/owner/big:Q4_K_M: not carried: its weights are several files, which llama.cpp finds by names that Ollama's store has not",
      ),
      `DIR/ollama/models/manifests/${library}/broken/latest:1: broken:latest: it is no valid YAML or JSON: Flow sequence in block collection must be sufficiently indented and end with a ]`,
      at(
        `${library}/gone/latest`,
        `gone:latest: not carried: DIR/ollama/models/blobs/sha256-${hash("9")}: it is not there`,
      ),
      at(
        `${library}/gpt-oss/120b-cloud`,
        "gpt-oss:120b-cloud: not carried: it runs on Ollama's servers, and not on this machine; an Upstream can name a provider",
      ),
      at(`${library}/huge/latest`, "huge:latest: it is larger than 1 MiB, the limit of such a file"),
      at(
        `${library}/tensors/latest`,
        "tensors:latest: not carried: its weights are safetensors, and llama.cpp loads GGUF",
      ),
    ]);
    assert.equal(code, 0);
    assert.deepEqual(Object.keys(await site.manifests()), [
      "groups/ollama.yaml",
      "models/lost.yaml",
      "models/whole.yaml",
      "slots/lost.yaml",
      "slots/whole.yaml",
    ]);
  });

  it("refuses a directory that is no store, and one without a model", async () => {
    await using site = await ollamaSite();
    const at = async (directory: string): Promise<string> =>
      (await site.import(`ollama ${join(site.path, directory)} --yes`)).stderr;
    const next = "name Ollama's directory of models, such as ~/.ollama/models\n";
    assert.equal(
      await at("ollama/models/blobs"),
      `import.unreadable: DIR/ollama/models/blobs: it has no directory manifests, as Ollama's models have\n${next}`,
    );
    assert.equal(await at("none"), `import.unreadable: DIR/none: it is not there\n${next}`);
    await mkdir(join(site.root, "manifests"));
    assert.equal(await at("ollama"), "import.empty: DIR/ollama/models: it holds no model\nnothing was written\n");
  });

  it("names a directory that this user may not read", { skip: noOtherUser() }, async () => {
    await using site = await ollamaSite();
    await site.manifest(`${library}/whole/latest`, "f", "model a");
    await chmod(site.path, 0o755);
    await chmod(join(site.root, "manifests", library), 0o700);
    const env = { ...site.env, HOME: "/nonexistent", SVC_CONFIG_DIR: site.configDir };
    const words = ["config", "import", "ollama", site.root];
    const { code, stdout, stderr } = await berthProcess(words, env, { uid: otherUser, gid: otherUser });
    const directory = join(site.root, "manifests", library);
    assert.equal(stdout, `Not carried, or not quite:\n  ${directory}: its models: this user may not read it\n`);
    assert.deepEqual(
      [code, stderr],
      [1, `import.empty: ${site.root}: it has no model that can be carried\nnothing was written\n`],
    );
  });
});
