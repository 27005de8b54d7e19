import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ApiFailure, call } from "../../shared/api.ts";
import { Button } from "../../shared/button.tsx";
import { useOnce } from "../../shared/once.ts";
import { toast } from "../../shared/toast.tsx";
import { retry } from "../conversation.ts";
import type { Message } from "../model.ts";
import { models } from "../models.ts";
import { current, isAnswering, refresh, shown } from "../store.ts";
import { RetryButton } from "./actions.tsx";
import { ModelMenu } from "./model-menu.tsx";

interface FailureProps {
  readonly message: Message;
  readonly isLast: boolean;
}

/** Why an answer ends before its end, with what a person can do about it. */
export function Failure({ message: { failure, model, cause }, isLast }: FailureProps): JSX.Element {
  const slot = models.value.find(({ id }) => id === model)?.berth.slot ?? undefined;
  const { slot: stuck, isUnloaded = false } = cause ?? {};
  return (
    <div role="alert">
      <p>{failure}</p>
      <div class="row">
        {stuck !== undefined && (isUnloaded && isLast ? <LoadButton slot={stuck} /> : <SlotLink slot={stuck} />)}
        {isLast && <RetryButton hasWord />}
        {isLast && !isAnswering.value && (
          <ModelMenu
            label="Ask another model"
            except={model ?? current.value.model}
            onChoose={(other) => void retry(other)}
          />
        )}
        {slot !== undefined && stuck === undefined && cause?.code !== "dispatch.rejected" && (
          <a class="button" href={`${pageOf(slot)}/log`} target="_self">
            Log of {slot}
          </a>
        )}
      </div>
    </div>
  );
}

const pageOf = (slot: string): string => `../ui/slots/${encodeURIComponent(slot)}`;

function SlotLink({ slot }: { readonly slot: string }): JSX.Element {
  return (
    <a class="button" href={pageOf(slot)} target="_self">
      Open {slot}
    </a>
  );
}

/** Loads the slot; whoever may not load it gets to its page. */
function LoadButton({ slot }: { readonly slot: string }): JSX.Element {
  const [isRefused, setRefused] = useState(false);
  const [isBusy, once] = useOnce();
  if (isRefused) return <SlotLink slot={slot} />;
  const load = async (): Promise<void> => {
    try {
      await call("POST /api/slots/{name}/load", { params: { name: slot } });
    } catch (error) {
      setRefused(error instanceof ApiFailure && error.status === 403);
      throw error;
    }
    toast(`${slot} loads. Retry asks it again.`);
    await refresh();
  };
  return (
    <Button isOff={isBusy} isBusy={isBusy} onClick={() => void once(() => shown(load))}>
      Load {slot}
    </Button>
  );
}
