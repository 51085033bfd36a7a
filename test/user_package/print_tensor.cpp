// Fills a tensor message and asks the middleware-independent type support for its name.

#include <cstdint>  // which the headers of ROS 2 Jazzy need before them, with GCC 15
#include <iostream>

#include <edgetpu_msgs/msg/tensor.hpp>
#include <edgetpu_msgs/srv/invoke.hpp>
#include <rosidl_typesupport_cpp/message_type_support.hpp>

int main()
{
  edgetpu_msgs::srv::Invoke::Request request;
  edgetpu_msgs::msg::Tensor tensor;
  tensor.dtype = edgetpu_msgs::msg::Tensor::UINT8;
  tensor.shape = {1, 4};
  tensor.data = {1, 2, 3, 4};
  request.inputs.push_back(tensor);
  const auto * support = rosidl_typesupport_cpp::get_message_type_support_handle<edgetpu_msgs::msg::Tensor>();
  std::cout << request.inputs[0].data.size() << " bytes, " << (support ? "typed" : "untyped") << std::endl;
  return 0;
}
