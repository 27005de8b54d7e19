import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync, globSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { basename, join } from "node:path";
import { describe, it, mock } from "node:test";
import { z } from "zod";
import { chatRenderer } from "../../engines/src/template.ts";

/** `hack/chat-templates.py` records how Python renders them; "refused": Python refuses, too. */
const { chats, results } = z
  .object({
    chats: z.array(z.array(z.object({ role: z.enum(["system", "user", "assistant"]), content: z.string() }))),
    results: z.record(z.string(), z.array(z.string())),
  })
  .parse(JSON.parse(readFileSync(new URL("templates.json", import.meta.url), "utf8")));

/** Templates with a part of Jinja that the library lacks: numbers as keys, and `format`. */
const unreadable: ReadonlySet<string> = new Set(["ByteDance-Seed-OSS.jinja", "tencent-Hy3.jinja"]);

const tokens = { bos: "<s>", eos: "</s>" };
const cache = join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "berth/llama-server");
const [folder = ""] = globSync(join(cache, "*/templates")).toSorted().toReversed();

describe("chat templates", () => {
  it("refuse messages with their own sentence, and a template that cannot be rendered is called that", () => {
    const picky =
      "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('No system') }}{% endif %}x{% endfor %}";
    const system = [{ role: "system", content: "be kind" }] as const;
    assert.throws(() => chatRenderer(picky, tokens)(system), {
      status: 400,
      message: "the model's chat template refuses these messages: No system",
    });
    assert.throws(() => chatRenderer("{% set x = {1: 2} %}", tokens)(system), {
      status: 400,
      message: /^this engine cannot render the model's chat template \(.*\): run the model on llama-server$/,
    });
  });

  it("may go through tools that nobody has offered, and describe them only where somebody has", () => {
    const hermes = "{% for tool in tools %}{{ tool }}{% endfor %}{{ messages[0].content }}";
    const llama = "{% if tools is defined and tools is not none %}Call them.{% endif %}{{ messages[0].content }}";
    for (const source of [hermes, llama])
      assert.equal(chatRenderer(source, tokens)([{ role: "user", content: "hi" }]), "hi");
  });

  it(
    "of real models render as in Python",
    { skip: existsSync(folder) ? false : `no templates below ${cache}: \`make llama-server\` unpacks them` },
    () => {
      mock.timers.enable({ apis: ["Date"], now: new Date("2026-07-26T12:00:00") });
      try {
        const differ = Object.entries(results).flatMap(([name, expected]) => {
          const render = chatRenderer(readFileSync(join(folder, basename(name)), "utf8"), tokens);
          const rendered = chats.map((chat) => {
            try {
              return createHash("sha256").update(render(chat)).digest("hex").slice(0, 16);
            } catch {
              return "refused";
            }
          });
          const wanted = unreadable.has(name) ? chats.map(() => "refused") : expected;
          return rendered.join() === wanted.join() ? [] : [name];
        });
        assert.deepEqual(differ, []);
        assert.equal(Object.keys(results).length, 70);
      } finally {
        mock.timers.reset();
      }
    },
  );
});
