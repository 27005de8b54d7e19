import assert from "node:assert/strict";
import { it } from "node:test";
import { exportText } from "../../../web/chat/export-text.ts";
import { newConversation } from "../../../web/chat/model.ts";

it("an export has every part of a conversation", () => {
  const text = exportText({
    ...newConversation("coder"),
    title: "cats",
    parameters: { system: "Be brief.", temperature: "0.2", maxTokens: "" },
    messages: [
      { role: "user", content: "what is this?", images: ["data:image/png;base64,AA=="] },
      {
        role: "assistant",
        content: "A cat.",
        model: "coder",
        thoughts: "It has whiskers.",
        toolCalls: [{ name: "look", arguments: '{"at":"```"}' }],
        failure: "Stopped.",
      },
    ],
  });
  assert.equal(
    text,
    `# cats

- Model: coder
- Temperature: 0.2

## System prompt

Be brief.

## You

what is this?

![Picture 1](data:image/png;base64,AA==)

## coder

### Thoughts

It has whiskers.

A cat.

### Calls look

\`\`\`\`json
{"at":"\`\`\`"}
\`\`\`\`

*Stopped.*
`,
  );
});
