import type { JSX } from "preact";
import { retry } from "../conversation.ts";
import { models } from "../models.ts";
import { current, isAnswering } from "../store.ts";
import { RetryButton } from "./actions.tsx";
import { ModelMenu } from "./model-menu.tsx";

interface FailureProps {
  readonly text: string;
  readonly model: string | undefined;
  readonly isLast: boolean;
}

/** Why an answer ends before its end, with what a person can do about it. */
export function Failure({ text, model, isLast }: FailureProps): JSX.Element {
  const slot = models.value.find(({ id }) => id === model)?.berth.slot ?? undefined;
  return (
    <div role="alert">
      <p>{text}</p>
      <div class="row">
        {isLast && <RetryButton hasWord />}
        {isLast && !isAnswering.value && (
          <ModelMenu
            label="Ask another model"
            except={model ?? current.value.model}
            onChoose={(other) => void retry(other)}
          />
        )}
        {slot !== undefined && (
          <a class="button" href={`../ui/slots/${encodeURIComponent(slot)}/log`} target="_self">
            Log of {slot}
          </a>
        )}
      </div>
    </div>
  );
}
