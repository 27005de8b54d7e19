import { knownPart } from "../../api/known-part.ts";
import { modelTaskAnswerSchema, modelTaskSchema, type ModelTask, type ModelTaskAnswer } from "../../api/model-task.ts";
import { Subscribers } from "../../lib/subscribers.ts";
import type { OpenDocuments } from "../documents.ts";

/** `<state>/model-tasks/`: what the operator is asked to do with the files of models, and its answers. */
export interface ModelTaskStore extends AsyncDisposable {
  /** The tasks that are not done, the oldest first. */
  tasks(): readonly ModelTask[];
  answers(): readonly ModelTaskAnswer[];
  /** Survives a power cut once resolved. */
  put(task: ModelTask): Promise<void>;
  /** Replaces the task by its answer. */
  answer(answer: ModelTaskAnswer): Promise<void>;
  /** Removes the task and its answer. */
  remove(id: string): Promise<void>;
  watch(onChange: () => void): Disposable;
}

/** Used by both sides: a gateway asks, the operator answers. */
export async function openModelTaskStore(open: OpenDocuments): Promise<ModelTaskStore> {
  const subscribers = new Subscribers<[]>();
  const documents = await open<ModelTask | ModelTaskAnswer>("model-tasks", {
    parse: (value) => knownPart(modelTaskAnswerSchema, value) ?? modelTaskSchema.safeParse(value).data,
    onChange: () => subscribers.notify(),
  });
  const values = (): (ModelTask | ModelTaskAnswer)[] => [...documents.values()].map(([, value]) => value);
  return {
    tasks: () =>
      values()
        .flatMap((value) => ("kind" in value ? [value] : []))
        .toSorted((a, b) => (a.requestedAt < b.requestedAt ? -1 : 1)),
    answers: () => values().flatMap((value) => ("answers" in value ? [value] : [])),
    put: (task) => documents.put(task.id, modelTaskSchema.parse(task), { isLasting: true, mode }),
    async answer(answer) {
      await documents.put(`${answer.answers}-answer`, modelTaskAnswerSchema.parse(answer), { isLasting: false, mode });
      await documents.delete(answer.answers);
    },
    async remove(id) {
      await documents.delete(id);
      await documents.delete(`${id}-answer`);
    },
    watch: (onChange) => subscribers.add(onChange),
    [Symbol.asyncDispose]: () => documents[Symbol.asyncDispose](),
  };
}

/** For the operator and gateways, which may be users of one group. */
const mode = 0o640;
