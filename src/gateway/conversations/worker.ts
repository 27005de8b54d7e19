import { isUtf8 } from "node:buffer";
import { parentPort } from "node:worker_threads";
import { ApiError } from "../../api/errors.ts";
import { conversationSchema, type Conversation } from "../../api/management/chat-routes.ts";
import { invalidRequest, problemsOf } from "../../api/problems.ts";
import { excessOf, halfCharacter, isWellFormed } from "../../lib/json-limits.ts";
import { parseJson } from "../../lib/json.ts";
import { failureOf } from "./thread-failure.ts";
import type { Answer, Question } from "./task.ts";
import { ConversationStore } from "./store.ts";

/** Runs on a thread of its own: a conversation of 16 MiB takes its parser and its schema up to a second. */
parentPort?.on("message", (question: Question) => {
  void answerTo(question)
    .catch((error: unknown): Answer => ({ failure: failureOf(error) }))
    .then((answer) => parentPort?.postMessage(answer, []));
});
// The first message says that this module is loaded.
parentPort?.postMessage("ready", []);

async function answerTo(question: Question): Promise<Answer> {
  const { owner, id } = question;
  const store = new ConversationStore(question.stateDir);
  if (question.do === "read") return { bytes: Buffer.from(JSON.stringify(await store.read(owner, id))) };
  if (question.do === "remove") {
    await store.remove(owner, id);
    return { isRemoved: true };
  }
  const conversation = conversationIn(question.bytes);
  if (conversation.id !== id) {
    const message = `must be ${id}, as in the path`;
    const details = { path: ["id"], message };
    throw new ApiError("dispatch.invalid_request", { status: 422, message: `id: ${message}`, details });
  }
  return { head: await store.write(owner, conversation, question.basedOn, question.hasAll) };
}

/** The same checks as of every other body. Throws ApiError `dispatch.invalid_request`. */
function conversationIn(bytes: Uint8Array): Conversation {
  if (!isUtf8(bytes)) throw refused("is not UTF-8");
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
  const excess = excessOf(text);
  if (excess !== undefined) throw refused(excess);
  const value = parseJson(text);
  if (value === undefined) throw refused("is no JSON");
  if (!isWellFormed(value)) throw refused(halfCharacter);
  const parsed = conversationSchema.safeParse(value);
  if (!parsed.success) throw invalidRequest(problemsOf(parsed.error, conversationSchema));
  return parsed.data;
}

function refused(why: string): ApiError {
  return invalidRequest([{ path: [], message: `the body ${why}` }]);
}
