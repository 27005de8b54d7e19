import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { validateDirectory } from "../../../src/store/files/validate.ts";
import { directoryWith } from "./site.ts";

it("refuses a manifest that is not UTF-8, whose broken letters would stand in a label for good", async () => {
  await using directory = await directoryWith({ "slots/a.yaml": "model: { default: tiny }\n" });
  const file = join(directory.path, "slots/a.yaml");
  await writeFile(
    file,
    Buffer.concat([Buffer.from('labels: { a: "'), Buffer.from([0xff, 0xc3]), Buffer.from('" }\n')]),
  );
  const [problem] = await validateDirectory(directory.path);
  assert.equal(problem?.message, "cannot be read (it is not UTF-8: save it as UTF-8)");
});
