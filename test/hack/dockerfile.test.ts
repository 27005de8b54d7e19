import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { imageUser } from "../../hack/images/berth.ts";
import { programParts } from "../../hack/release/program.ts";

const read = (path: string): string => readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), "utf8");

/** The text of one stage. */
function stageOf(text: string, name: string): string {
  const stage = text.split(/^(?=FROM )/m).find((each) => each.split("\n", 1)[0]?.endsWith(` AS ${name}`) === true);
  assert.ok(stage !== undefined, `no stage ${name}`);
  return stage;
}

it("the Dockerfile has the files, the user and the entry points of `make images`", () => {
  const text = read("hack/images/Dockerfile");
  const builder = read("hack/images/berth.ts");
  const berth = stageOf(text, "berth");
  for (const part of [...programParts, "package.json", "dist", "node_modules"])
    assert.match(berth, new RegExp(`^COPY .*/src/${part}( |$)`, "m"), `${part} is not copied`);
  for (const [name, source] of [
    ["berth", builder],
    ["berth-embedded", read("hack/images/embedded.ts")],
  ] as const) {
    const stage = stageOf(text, name);
    const program = /"(\/app\/[^"]+\.[jt]s)"\]/.exec(source)?.[1] ?? "missing";
    assert.ok(
      stage.includes(`ENTRYPOINT ["/usr/bin/node", "--disable-warning=ExperimentalWarning", "${program}"]`),
      name,
    );
    assert.ok(stage.includes(`USER ${imageUser}\n`), name);
    assert.ok(stage.includes("WORKDIR /app\n"), name);
  }
});
