import assert from "node:assert/strict";
import { it } from "node:test";
import { drafts, dropDraft, keepDraft, unsavedFiles } from "../../../web/dashboard/drafts.ts";

it("an edit is unsaved until its text is the file's again, or it is dropped", () => {
  const base = { file: "slots/coder.toml", text: "a\n", hash: "1", read_only: null };
  keepDraft("/api/slots/coder", { text: "a\n", base });
  assert.deepEqual(unsavedFiles(), []);
  keepDraft("/api/slots/coder", { text: "b\n", base });
  assert.deepEqual(unsavedFiles(), ["slots/coder.toml"]);
  assert.equal(drafts.value.get("/api/slots/coder")?.text, "b\n");
  keepDraft("/api/slots/coder", { text: "a\n", base });
  assert.deepEqual(unsavedFiles(), []);
  keepDraft("/api/slots/coder", { text: "c\n", base });
  dropDraft("/api/slots/coder");
  assert.deepEqual(unsavedFiles(), []);
});
