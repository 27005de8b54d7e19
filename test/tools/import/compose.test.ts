import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fixtures, importSite } from "./site.ts";

describe("berth config import compose", () => {
  it("makes a slot of each model server, with files of this machine", async () => {
    await using site = await importSite();
    const { left, stdout } = await site.import("compose FIXTURES/gpu-box.compose.yaml --yes", {
      HF_TOKEN: "hf_fixture00000000",
    });
    const manifests = await site.manifests();
    assert.deepEqual(Object.keys(manifests), [
      "models/qwen3-8b.yaml",
      "slots/chat.yaml",
      "slots/embeddings.yaml",
      "slots/vllm.yaml",
    ]);
    assert.equal(
      manifests["slots/chat.yaml"],
      "image: ghcr.io/ggml-org/llama.cpp:server-cuda\nmodel:\n  default: qwen3-8b\n  contextSize: 16384\nbackend: cuda\n",
    );
    assert.equal(manifests["models/qwen3-8b.yaml"], `source: file://${fixtures}/models/qwen3-8b.gguf\n`);
    assert.equal(
      manifests["slots/vllm.yaml"],
      `engine: custom
image: vllm/vllm-openai:v0.11.0
model:
  default: Qwen/Qwen3-8B
args:
  - --model
  - Qwen/Qwen3-8B
  - --port
  - $(PORT)
env:
  VLLM_LOGGING_LEVEL: INFO
mounts:
  - source: DIR/.cache/huggingface
    target: /root/.cache/huggingface
    readOnly: false
backend: cuda
shmSizeBytes: 8589934592
`,
    );
    assert.match(
      manifests["slots/embeddings.yaml"] ?? "",
      /capabilities:\n {2}- embeddings\n[^]*- --port\n {2}- \$\(PORT\)\n/,
    );
    assert.doesNotMatch(stdout, /hf_fixture|sk-fixture/);
    const at = (line: number, text: string): string => `FIXTURES/gpu-box.compose.yaml:${line}: ${text}`;
    const secret =
      "it looks like a secret, which no manifest holds: put it into a file of mode 0600 and name that with env.NAME.valueFrom.file";
    assert.deepEqual(left, [
      at(
        9,
        "services.chat env LLAMA_API_KEY: its value is not carried: Berth gives each engine a new key per start, and clients tokens (`berth token create`)",
      ),
      at(17, `services.vllm env HF_TOKEN: ${secret}`),
      at(
        17,
        "services.vllm volume vllm-cache: a volume of Docker's own is not carried: what the engine kept there it fetches again; mount a directory of this machine instead",
      ),
      at(22, "services.vllm.ipc: shmSizeBytes gives a container shared memory of its own"),
      at(31, "services.ollama: import Ollama's models with `berth config import ollama ./ollama`"),
      at(
        34,
        "services.webui: ghcr.io/open-webui/open-webui:main is no model server that this command knows: write a slot with engine: custom and image",
      ),
      at(9, "FIXTURES/models/qwen3-8b.gguf: it is not there"),
    ]);
  });

  it("has engines for speech listen where Berth asks them", async () => {
    await using site = await importSite();
    const { left } = await site.import("compose FIXTURES/voice.compose.yaml --yes");
    const manifests = await site.manifests();
    assert.match(
      manifests["slots/whisper.yaml"] ?? "",
      /- whisper-server --model \/models\/ggml-base\.bin --host 0\.0\.0\.0 --port \$\(PORT\)\n/,
    );
    assert.match(manifests["slots/speaches.yaml"] ?? "", /env:\n {2}UVICORN_PORT: \$\(PORT\)\n/);
    assert.match(manifests["slots/kokoro.yaml"] ?? "", /capabilities:\n {2}- speech\n/);
    assert.match(manifests["slots/localai.yaml"] ?? "", /probe:\n {2}path: \/readyz\n/);
    assert.deepEqual(left, [
      "FIXTURES/voice.compose.yaml:12: services.kokoro: the engine must listen on $(PORT), 8080 in a container, and not on 8880",
      "FIXTURES/voice.compose.yaml:18: services.localai.privileged: Berth gives containers no such rights",
      "FIXTURES/voice.compose.yaml:19: services.own: not carried: it names no image",
      "FIXTURES/voice.compose.yaml:21: services.windows: it names paths of Windows, which this machine has not",
    ]);
  });

  const services = async (text: string, env: NodeJS.ProcessEnv = {}) => {
    await using site = await importSite();
    const file = join(site.path, "c.yaml");
    await writeFile(file, `services:\n${text}`);
    const { left, stdout } = await site.import(`compose ${file} --yes`, env);
    const manifests = await site.manifests();
    return { left, manifests, shown: stdout + JSON.stringify(manifests) };
  };

  it("takes the number of the port for the port only where one stands", async () => {
    const { manifests } = await services(`  a:
    image: vllm/vllm-openai
    command: --model Qwen/Qwen3-Next-80B-A3B --gpu-memory-utilization 0.80 --max-model-len 80 -p 80 --report=http://0.0.0.0:80/x
    ports: ["8080:80"]
    environment: { MAX_JOBS: 80, VLLM_PORT: 80, VLLM_HOST: "tcp://a:80" }
  b:
    image: vllm/vllm-openai
    entrypoint: [vllm, serve, --max-model-len, "8000"]
    ports: ["8000:8000"]
`);
    const list = (...words: readonly string[]): string => words.map((word) => `  - ${word}\n`).join("");
    const ported = ["-p", "$(PORT)", "--report=http://0.0.0.0:$(PORT)/x"];
    const plain = [
      "--model",
      "Qwen/Qwen3-Next-80B-A3B",
      "--gpu-memory-utilization",
      '"0.80"',
      "--max-model-len",
      '"80"',
    ];
    const variables = '  MAX_JOBS: "80"\n  VLLM_PORT: $(PORT)\n  VLLM_HOST: tcp://a:$(PORT)\n';
    assert.ok(
      manifests["slots/a.yaml"]?.includes(`args:\n${list(...plain, ...ported)}env:\n${variables}`),
      manifests["slots/a.yaml"],
    );
    assert.ok(
      manifests["slots/b.yaml"]?.includes(list("vllm", "serve", "--max-model-len", '"8000"', "--port", "$(PORT)")),
      manifests["slots/b.yaml"],
    );
  });

  it("neither writes nor prints a secret, wherever it stands in the command, and lists each", async () => {
    const { left, shown } = await services(`  a:
    image: vllm/vllm-openai
    entrypoint: [vllm, serve, --api-key, sk-fixture-key-000000001]
    command: [bash, -c, "vllm serve --api-key sk-fixture-key-000000002", "-HAuthorization: Bearer fixture-000000003"]
    environment: { OPTIONS: --api-key sk-fixture-key-000000004 }
  b:
    image: ghcr.io/ggml-org/llama.cpp:server
    command: [-m, /m/a.gguf, "--api-key=sk-fixture-key-000000005"]
    volumes: ["/srv:/m"]
`);
    assert.doesNotMatch(shown, /fixture-/);
    assert.deepEqual(
      left.flatMap((line) => /: (services.*?): it looks like a secret/.exec(line)?.[1] ?? []),
      [
        "services.a --api-key",
        "services.a word 7",
        "services.a word 8",
        "services.a env OPTIONS",
        "services.b --api-key",
      ],
    );
  });

  it("takes the variables of llama.cpp for its flags, and lists those without a value", async () => {
    const { left, manifests } = await services(`  a:
    image: ghcr.io/ggml-org/llama.cpp:server
    environment:
      LLAMA_ARG_MODEL: /m/a.gguf
      LLAMA_ARG_MMPROJ: /m/mmproj.gguf
      LLAMA_ARG_N_PARALLEL: 2
      LLAMA_ARG_CTX_SIZE: 8192
      LLAMA_ARG_EMBEDDINGS: 1
      LLAMA_ARG_POOLING: mean
      LLAMA_ARG_THREADS:
      HF_TOKEN:
    volumes: ["/srv:/m"]
  b: { image: "ghcr.io/ggml-org/llama.cpp:server", environment: [LLAMA_ARG_HF_REPO=a/b, MODE] }
`);
    assert.equal(
      manifests["slots/a.yaml"],
      "image: ghcr.io/ggml-org/llama.cpp:server\ncapabilities:\n  - embeddings\nmodel:\n  default: a\n  contextSize: 4096\n  parallel: 2\nenv:\n  LLAMA_ARG_POOLING: mean\n",
    );
    assert.match(manifests["models/a.yaml"] ?? "", /a\.gguf\n.*\/srv\/mmproj\.gguf\n/);
    assert.deepEqual(
      left.map((line) => line.replace(/^.*: services/, "services")).filter((line) => line.startsWith("services")),
      [
        "services.a env LLAMA_ARG_THREADS: it has no value there: write one into env",
        "services.a env HF_TOKEN: it looks like a secret, which no manifest holds: put it into a file of mode 0600 and name that with env.NAME.valueFrom.file",
        "services.b: llama-server fetches its model itself: fetch it by `berth model pull`, or put the file into the models directory, and write a slot",
      ],
    );
  });

  it("fills in variables as Compose does, and says which it cannot", async () => {
    const text =
      "a${SET:+b-c} d${UNSET:+e-f} ${SET-g} ${UNSET:-${SET}} ${UNSET:-{}} ${EMPTY-h}. ${EMPTY:-i} $$SET ${UNSET:?set-it}";
    const { left, manifests } = await services(
      `  a: { image: vllm/vllm-openai, environment: { A: "${text}", B: "\${SET:-\${A:-\${B}}}" } }\n`,
      { SET: "s", EMPTY: "" },
    );
    assert.match(manifests["slots/a.yaml"] ?? "", /A: "?ab-c d s s \{\} \. i \$SET "?\n/);
    assert.deepEqual(
      left.map((line) => line.replace(/^.*: services/, "services")),
      [
        "services.a: ${UNSET} is not set here, and is taken as empty",
        "services.a: a variable is not understood: from there on its text stays as it is written",
      ],
    );
  });

  it("refuses a file that is something else", async () => {
    await using site = await importSite();
    await writeFile(join(site.path, "c.yaml"), "models: {}\n");
    const { code, stderr } = await site.import(`compose ${join(site.path, "c.yaml")} --yes`);
    assert.deepEqual(
      [code, stderr],
      [1, "import.unreadable: DIR/c.yaml:1: it is no Compose file: it has no map 'services'\nnothing was written\n"],
    );
  });
});
