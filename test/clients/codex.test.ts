import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { startBerth } from "../support/berth.ts";
import { berthProcess, type Ended } from "../support/command.ts";
import { startGateway } from "../support/gateway.ts";
import { list, record } from "../support/openai.ts";
import { scriptedEngine } from "../support/scripted-engine.ts";
import { writeGreeter } from "../support/scripted-model.ts";
import { tempDir } from "../support/temp-dir.ts";

const codex = process.env["BERTH_TEST_CODEX"] ?? "";
const llamaServer = process.env["BERTH_TEST_LLAMA_SERVER"] ?? "";
const skip =
  codex === "" ? "the npm registry has not given Codex: run `make test-clients` where it is in reach" : false;

/** Runs `codex exec` with default settings and Berth as its provider, in a directory of its own. */
async function exec(url: string, model: string, prompt: string): Promise<Ended> {
  await using directory = await tempDir();
  const config = `model = ${JSON.stringify(model)}
model_provider = "berth"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.berth]
name = "berth"
base_url = "${url}/v1"
wire_api = "responses"
`;
  await writeFile(join(directory.path, "config.toml"), config);
  // What it asks other servers for ends at a port of loopback where nothing listens.
  const elsewhere = { HTTPS_PROXY: "http://127.0.0.1:9", HTTP_PROXY: "http://127.0.0.1:9", NO_PROXY: "127.0.0.1" };
  const env = { HOME: directory.path, CODEX_HOME: directory.path, ...elsewhere };
  return await berthProcess(["exec", "-C", directory.path, "--skip-git-repo-check", prompt], env, { program: codex });
}

describe("Codex with default settings", { skip }, () => {
  const engines = [
    ["the embedded engine", {}, false],
    [
      "llama-server",
      { SVC_LLAMA_SERVER: llamaServer },
      llamaServer === "" && "no llama-server is built: run `make llama-server`",
    ],
  ] as const;
  for (const [engine, env, isMissing] of engines) {
    it(`gets its answer from ${engine}`, { skip: isMissing }, async () => {
      await using berth = await startBerth({
        env,
        prepare: async ({ configDir, modelsDir }) => {
          await writeGreeter(join(modelsDir, "greeter.gguf"));
          await writeFile(
            join(configDir, "slots/primary.toml"),
            '[model]\ndefault = "greeter"\ncontext_size = 65536\n',
          );
        },
      });
      await berth.state("primary", "ready");
      const { code, stdout, stderr } = await exec(berth.url, "primary", "say hi");
      assert.deepEqual([code, stdout.trim()], [0, "Greetings!"], stderr);
    });
  }

  it("runs a function, a custom tool and a member of a namespace that the model calls, and shows it their outputs", async () => {
    const call = (index: number, name: string, input: object): object => {
      return { index, id: `call_${index}`, type: "function", function: { name, arguments: JSON.stringify(input) } };
    };
    const calls = [
      call(0, "functionsexec", { input: 'text("from the custom tool")' }),
      call(1, "collaborationlist_agents", {}),
    ];
    await using engine = await scriptedEngine((response, { body }) => {
      const isSecond = body.includes('"role":"tool"');
      const delta = isSecond ? { content: "done" } : { tool_calls: calls };
      response.writeHead(200, { "content-type": "text/event-stream" });
      const chunk = { id: "1", choices: [{ index: 0, delta, finish_reason: isSecond ? "stop" : "tool_calls" }] };
      response.end(`data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`);
    });
    const model = "gpt-6.2-sol";
    await using gateway = await startGateway({
      slots: { primary: { port: engine.port, status: { aliases: [model] } } },
    });
    const { code, stdout, stderr } = await exec(gateway.url, model, "do it");
    assert.deepEqual([code, stdout.trim()], [0, "done"], stderr);
    const messages = list(record(JSON.parse(engine.seen[1]?.body ?? "{}"))["messages"]);
    const [, first, second] = messages.slice(-3);
    assert.match(JSON.stringify(first), /from the custom tool/);
    assert.match(JSON.stringify(second), /root/);
  });
});
