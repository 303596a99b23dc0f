import logging

from agents.shared.agent_sdk import AgentRunner

logger = logging.getLogger(__name__)


def run(state):
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    logger.info("%d records", len(state["records"]))
    logger.debug("not shown")
    try:
        1 / 0
    except ZeroDivisionError:
        logger.error("division: %s", "failed")
    result = AgentRunner.run("plain", {"n": len(state["records"])})
    logger.warning("agent %s took %s", result.agent_name, "a while")
    return {"list": [logging.getLevelName(logger.getEffectiveLevel())]}
