from koord_model.node import NodeView, Topology


def test_a_view_of_an_unknown_node_asks_for_nothing_special() -> None:
    view = NodeView()
    assert view.topology is None
    assert view.be_cfs_quota
    assert view.cpu_normalization_ratio == 1.0


def test_a_topology_without_a_word_on_the_kubelet_means_its_default_policy() -> None:
    assert Topology().kubelet_policy == "none"
